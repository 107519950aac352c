"""An operator's reads of the messages that wait for one subject."""

OF_QUEUE = """
SELECT body, attempts, next_attempt_at_ms, last_error FROM outbox
WHERE destination = ? AND queue = ? AND next_attempt_at_ms IS NOT NULL
ORDER BY attempts, next_attempt_at_ms LIMIT ?
"""
# It walks through the index of owed messages, when /metrics is asked for while messages are owed; so many
# entries of it, and no more: of a longer queue the oldest among them stands for all.
OLDEST_DUE = """
SELECT MIN(next_attempt_at_ms)
FROM (SELECT next_attempt_at_ms FROM outbox WHERE next_attempt_at_ms IS NOT NULL
      ORDER BY destination, queue, attempts, next_attempt_at_ms LIMIT ?) AS slice
"""
