"""The statements that queue messages."""

INSERT = """
INSERT INTO outbox
    (message_id, destination, url, body, purpose, subject, signing_secret, device_id, client, queue,
     created_at_ms, next_attempt_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
INSERT_ALL = """
INSERT INTO outbox (message_id, destination, url, body, purpose, subject, device_id, client, queue,
     created_at_ms, next_attempt_at_ms)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
       CAST(json_extract(value, '$[3]') AS BLOB), json_extract(value, '$[4]'), json_extract(value, '$[5]'),
       json_extract(value, '$[6]'), json_extract(value, '$[7]'), json_extract(value, '$[8]'), ?1, ?1
FROM json_each(?2)
"""
