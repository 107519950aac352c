-- What a message serves: the purpose names the room's reason to send it, and decides what is forgotten when the
-- receiver has answered that it is gone. `unknown`: an older version stored the row, and it does not show.
ALTER TABLE outbox ADD COLUMN purpose TEXT NOT NULL DEFAULT 'unknown';

-- Rows of older versions: only they are distinguished by their bodies, each of which has members of its own.
CREATE TEMP TABLE outbox_notices AS
SELECT id, json_extract(text, '$.event') AS event, json_extract(text, '$.topic') AS topic,
       json_extract(text, '$.sessionId') AS session_id, json_extract(text, '$.project_id') AS project_id
FROM (SELECT id, CAST(body AS TEXT) AS text FROM outbox)
WHERE CASE WHEN json_valid(text) THEN json_type(text) = 'object' ELSE FALSE END;

UPDATE outbox SET
    purpose = CASE
        WHEN device_id IS NOT NULL OR notice.event = 'notification' THEN 'device'
        WHEN notice.event = 'request' THEN 'push'
        WHEN notice.event IS NOT NULL THEN 'project-event'
        WHEN notice.session_id IS NOT NULL THEN 'call-webhook'
        WHEN notice.topic IS NOT NULL THEN 'topic-webhook'
        ELSE 'unknown'
    END,
    subject = coalesce(subject, notice.project_id, notice.session_id, notice.topic),
    device_id = CASE
        WHEN notice.event = 'notification' AND instr(message_id, '.') > 0
            THEN coalesce(device_id, substr(message_id, 1, instr(message_id, '.') - 1))
        ELSE device_id
    END
FROM outbox_notices AS notice WHERE notice.id = outbox.id;

DROP TABLE outbox_notices;

-- Limits of bytes count in bytes, whatever their size, and buckets.interval_us is per KiB there. Before, large
-- limits counted in KiB under a name of their own.
UPDATE buckets SET interval_us = interval_us * 1024 WHERE limit_name LIKE '%-bytes';
UPDATE OR REPLACE buckets SET limit_name = replace(limit_name, '-kibibytes', '-bytes')
WHERE limit_name LIKE '%-kibibytes';
