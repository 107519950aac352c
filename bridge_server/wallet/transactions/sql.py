"""The statements on transactions: SQL that SQLite 3.40 and PostgreSQL 14 both understand, parameters as `?`.

What is owed is queued or signed; what is live, and has its nonce for itself, is signed or sent. What is
mined had its nonce for itself, unless the chain was set back.
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

# The first condition on the state is that of the index.
LIVE_NONCES = """
SELECT DISTINCT nonce FROM wallet_transactions
WHERE chain_id = ? AND sender = ? AND nonce >= ? AND state IN ('signed', 'sent', 'mined') AND state <> 'mined'
ORDER BY nonce
"""

SETTLE_SENT = """
UPDATE wallet_transactions SET state = 'sent', error = NULL
WHERE transaction_id = ? AND state = 'signed'
RETURNING chain_id, sender, nonce, transaction_hash
"""
# Two requests may have come to the same transaction: it does not replace itself.
REPLACE_OTHERS = """
UPDATE wallet_transactions SET state = 'replaced', error = ?, settled_at_ms = ?
WHERE chain_id = ? AND sender = ? AND nonce = ? AND transaction_hash <> ?
    AND state IN ('signed', 'sent', 'mined') AND state <> 'mined'
"""
SETTLE_REFUSED = """
UPDATE wallet_transactions SET state = 'refused', error = ?, settled_at_ms = ?
WHERE transaction_id = ? AND state IN ('queued', 'signed')
"""
POSTPONE = """
UPDATE wallet_transactions SET attempts = attempts + ?, next_attempt_at_ms = ?, error = ?
WHERE transaction_id = ? AND state IN ('queued', 'signed')
"""
CHANGE_STATE = """
UPDATE wallet_transactions SET state = ?, error = ?, next_attempt_at_ms = ?, settled_at_ms = ?
WHERE transaction_id = ? AND state = ?
"""

OWING = """
SELECT sender FROM wallet_transactions
WHERE next_attempt_at_ms <= ? AND state IN ('queued', 'signed')
"""
OWED = """
SELECT transaction_id, attempts FROM wallet_transactions
WHERE sender = ? AND state IN ('queued', 'signed')
ORDER BY nonce IS NULL, nonce, id
"""
NEXT_DUE = """
SELECT min(next_attempt_at_ms) FROM wallet_transactions
WHERE next_attempt_at_ms >= 0 AND state IN ('queued', 'signed')
"""
SENDERS = """
SELECT DISTINCT sender FROM wallet_transactions
WHERE chain_id = ? AND state IN ('signed', 'sent', 'mined')
"""
LOWEST_SENT = """
SELECT sender, min(nonce) FROM wallet_transactions WHERE chain_id = ? AND state = 'sent' GROUP BY sender
"""
FOLLOWED = f"""
SELECT {_FROM}
WHERE chain_id = ? AND sender = ? AND nonce >= ? AND state IN ('signed', 'sent', 'mined')
ORDER BY nonce, id
"""

GET = f"SELECT {_FROM} WHERE transaction_id = ?"
NEWEST = f"SELECT {_FROM} WHERE id > 0 ORDER BY id DESC LIMIT 1"
NEWEST_OF_SENDER = f"SELECT {_FROM} WHERE sender = ? ORDER BY id DESC LIMIT 1"
WITH_PARAMS = f"SELECT {_FROM} WHERE sender = ? AND params = ? ORDER BY id DESC LIMIT ?"
WITH_HASH = f"SELECT {_FROM} WHERE transaction_hash = ? ORDER BY id DESC LIMIT ?"
WAITING = f"""
SELECT {_FROM}
WHERE next_attempt_at_ms >= 0 AND state IN ('queued', 'signed') AND sender = coalesce(?, sender)
ORDER BY asked_at_ms, id LIMIT ?
"""

SWEEP = """
DELETE FROM wallet_transactions WHERE id IN
    (SELECT id FROM wallet_transactions WHERE settled_at_ms < ? ORDER BY settled_at_ms LIMIT ?)
"""
