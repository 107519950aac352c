"""The statements on transactions: SQL that SQLite 3.40 and PostgreSQL 14 both understand, parameters as `?`.

What is owed is queued or signed; what is live, and has its nonce for itself, is signed or sent.
"""

_FROM = """
    transaction_id, sender, params, asked_at_ms, caller, origin, request_id,
    chain_id, state, nonce, transaction_hash, raw, attempts, next_attempt_at_ms, error
FROM wallet_transactions
"""

UPSERT = """
INSERT INTO wallet_transactions (
    transaction_id, sender, params, asked_at_ms, caller, origin, request_id,
    chain_id, state, nonce, transaction_hash, raw, next_attempt_at_ms
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (transaction_id) DO UPDATE SET
    chain_id = excluded.chain_id,
    state = excluded.state,
    nonce = excluded.nonce,
    transaction_hash = excluded.transaction_hash,
    raw = excluded.raw,
    next_attempt_at_ms = excluded.next_attempt_at_ms,
    error = NULL
WHERE wallet_transactions.state = 'queued'
"""

LIVE_NONCES = """
SELECT DISTINCT nonce FROM wallet_transactions
WHERE sender = ? AND chain_id = ? AND nonce >= ? AND state IN ('signed', 'sent')
ORDER BY nonce
"""

SETTLE_SENT = """
UPDATE wallet_transactions SET state = 'sent', error = NULL
WHERE transaction_id = ? AND state = 'signed'
RETURNING sender, chain_id, nonce, transaction_hash
"""
# Two requests may have come to the same transaction: it does not replace itself.
REPLACE_OTHERS = """
UPDATE wallet_transactions SET state = 'replaced', settled_at_ms = ?
WHERE sender = ? AND chain_id = ? AND nonce = ? AND transaction_hash <> ? AND state IN ('signed', 'sent')
"""
SETTLE_REFUSED = """
UPDATE wallet_transactions SET state = 'refused', error = ?, settled_at_ms = ?
WHERE transaction_id = ? AND state IN ('queued', 'signed')
"""
SETTLE_MINED = """
UPDATE wallet_transactions SET state = 'mined', settled_at_ms = ?
WHERE sender = ? AND chain_id = ? AND nonce < ? AND state = 'sent'
"""
POSTPONE = """
UPDATE wallet_transactions SET attempts = attempts + ?, next_attempt_at_ms = ?, error = ?
WHERE transaction_id = ? AND state IN ('queued', 'signed')
"""
SEND_AGAIN = """
UPDATE wallet_transactions SET state = 'signed', next_attempt_at_ms = ?
WHERE transaction_id = ? AND state = 'sent'
"""

OWED = f"""
SELECT {_FROM}
WHERE next_attempt_at_ms <= ? AND state IN ('queued', 'signed')
ORDER BY nonce IS NULL, nonce, id LIMIT ?
"""
NEXT_DUE = """
SELECT min(next_attempt_at_ms) FROM wallet_transactions
WHERE next_attempt_at_ms >= 0 AND state IN ('queued', 'signed')
"""
UNMINED = f"""
SELECT {_FROM}
WHERE chain_id = ? AND state = 'sent'
    AND id > coalesce((SELECT id FROM wallet_transactions AS earlier WHERE earlier.transaction_id = ?), 0)
ORDER BY id LIMIT ?
"""  # noqa: S608 - columns, no input

GET = f"SELECT {_FROM} WHERE transaction_id = ?"
NEWEST = f"SELECT {_FROM} WHERE id > 0 ORDER BY id DESC LIMIT 1"
NEWEST_OF_SENDER = f"SELECT {_FROM} WHERE sender = ? ORDER BY id DESC LIMIT 1"
NEWEST_WITH_PARAMS = f"SELECT {_FROM} WHERE sender = ? AND params = ? ORDER BY id DESC LIMIT 1"
WITH_HASH = f"SELECT {_FROM} WHERE transaction_hash = ? ORDER BY id DESC LIMIT 1"
WAITING = f"""
SELECT {_FROM}
WHERE next_attempt_at_ms >= 0 AND state IN ('queued', 'signed') AND sender = coalesce(?, sender)
ORDER BY asked_at_ms, id LIMIT ?
"""

SWEEP = """
DELETE FROM wallet_transactions WHERE id IN
    (SELECT id FROM wallet_transactions WHERE settled_at_ms < ? ORDER BY settled_at_ms LIMIT ?)
"""
