-- oldest program: 14
-- A message of generation 2.x is one row, however many clients it waits for: a subscription says how far its
-- client has come. Of a topic's messages, those wait for the client that are
--   above `reached` and published by others, or
--   listed in `missing`: the client has acknowledged later ones, or it was given what nobody had received.

DELETE FROM irn_messages WHERE is_open = 0 AND NOT EXISTS
    (SELECT 1 FROM irn_deliveries JOIN irn_subscriptions ON irn_subscriptions.client = irn_deliveries.client
     WHERE irn_deliveries.number = irn_messages.number AND irn_subscriptions.topic = irn_messages.topic
        AND is_received = 0);

ALTER TABLE irn_subscriptions
    ADD COLUMN since BIGINT NOT NULL DEFAULT 0,     -- the greatest number on the topic when the client subscribed
    ADD COLUMN reached BIGINT NOT NULL DEFAULT 0,   -- messages up to this number do not wait, but those in `missing`
    ADD COLUMN missing TEXT COLLATE "C";            -- a JSON array of numbers; NULL: none

DROP INDEX irn_messages_by_topic;
CREATE INDEX irn_messages_by_topic ON irn_messages (topic, number, expires_at_ms, size_bytes);
UPDATE irn_subscriptions SET (since, reached) = (
    SELECT coalesce(max(number), 0), coalesce(max(number), 0) FROM irn_messages
    WHERE irn_messages.topic = irn_subscriptions.topic);
UPDATE irn_subscriptions SET missing = waiting.numbers FROM (
    SELECT irn_deliveries.client, irn_messages.topic, json_agg(irn_deliveries.number)::text AS numbers
    FROM irn_deliveries JOIN irn_messages ON irn_messages.number = irn_deliveries.number
    WHERE is_received = 0 GROUP BY 1, 2) AS waiting
WHERE waiting.client = irn_subscriptions.client AND waiting.topic = irn_subscriptions.topic;
DROP TABLE irn_deliveries;
