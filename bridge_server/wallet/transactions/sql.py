"""The statements on transactions: SQL that SQLite 3.40 and PostgreSQL 14 both understand, parameters as `?`.

Which states a statement concerns is read from the table of states.
"""

# ruff: noqa: S608  only constants of this package are put in

from bridge_server.wallet.models import TransactionState
from bridge_server.wallet.transactions.states import (
    FOLLOWED,
    LIVE,
    WAITING,
    TransactionEvent,
    is_in,
    state_after,
    states_before,
)

_IS_WAITING = is_in(WAITING)
# The index of nonces has this condition: a statement uses the index only if it repeats the condition.
_IS_FOLLOWED = is_in(FOLLOWED)

_FROM = """
    transaction_id, sender, params, asked_at_ms, caller, origin, request_id,
    chain_id, state, nonce, transaction_hash, raw, attempts, next_attempt_at_ms, error
FROM wallet_transactions
"""

UPSERT = f"""
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
WHERE wallet_transactions.{is_in(states_before(TransactionEvent.SIGN))}
"""

LIVE_NONCES = f"""
SELECT DISTINCT nonce FROM wallet_transactions
WHERE chain_id = ? AND sender = ? AND nonce >= ? AND {_IS_FOLLOWED} AND {is_in(LIVE)}
ORDER BY nonce
"""

ACCEPT = f"""
UPDATE wallet_transactions SET state = '{state_after(TransactionEvent.ACCEPT)}', error = NULL
WHERE transaction_id = ? AND {is_in(states_before(TransactionEvent.ACCEPT))}
RETURNING chain_id, sender, nonce, transaction_hash
"""
# Two requests may have come to the same transaction: it does not replace itself.
REPLACE_OTHERS = f"""
UPDATE wallet_transactions SET state = '{state_after(TransactionEvent.REPLACE)}', error = ?, settled_at_ms = ?
WHERE chain_id = ? AND sender = ? AND nonce = ? AND transaction_hash <> ?
    AND {_IS_FOLLOWED} AND {is_in(states_before(TransactionEvent.REPLACE))}
"""
REFUSE = f"""
UPDATE wallet_transactions SET state = '{state_after(TransactionEvent.REFUSE)}', error = ?, settled_at_ms = ?
WHERE transaction_id = ? AND {is_in(states_before(TransactionEvent.REFUSE))}
"""
POSTPONE = f"""
UPDATE wallet_transactions SET attempts = attempts + ?, next_attempt_at_ms = ?, error = ?
WHERE transaction_id = ? AND {is_in(states_before(TransactionEvent.POSTPONE))}
"""
CHANGE_STATE = """
UPDATE wallet_transactions SET state = ?, error = ?, next_attempt_at_ms = ?, settled_at_ms = ?
WHERE transaction_id = ? AND state = ?
"""

SENDERS_WITH_DUE = f"""
SELECT sender FROM wallet_transactions
WHERE next_attempt_at_ms <= ? AND {_IS_WAITING}
"""
QUEUE = f"""
SELECT transaction_id, attempts FROM wallet_transactions
WHERE sender = ? AND {_IS_WAITING}
ORDER BY nonce IS NULL, nonce, id
"""
NEXT_DUE = f"""
SELECT min(next_attempt_at_ms) FROM wallet_transactions
WHERE next_attempt_at_ms >= 0 AND {_IS_WAITING}
"""
SENDERS = f"""
SELECT DISTINCT sender FROM wallet_transactions
WHERE chain_id = ? AND {_IS_FOLLOWED}
"""
LOWEST_SENT = f"""
SELECT sender, min(nonce) FROM wallet_transactions
WHERE chain_id = ? AND {is_in([TransactionState.SENT])} GROUP BY sender
"""
FOLLOWED_TRANSACTIONS = f"""
SELECT {_FROM}
WHERE chain_id = ? AND sender = ? AND nonce >= ? AND {_IS_FOLLOWED}
ORDER BY nonce, id
"""

GET = f"SELECT {_FROM} WHERE transaction_id = ?"
NEWEST = f"SELECT {_FROM} WHERE id > 0 ORDER BY id DESC LIMIT 1"
NEWEST_OF_SENDER = f"SELECT {_FROM} WHERE sender = ? ORDER BY id DESC LIMIT 1"
WITH_PARAMS = f"SELECT {_FROM} WHERE sender = ? AND params = ? ORDER BY id DESC LIMIT ?"
WITH_HASH = f"SELECT {_FROM} WHERE transaction_hash = ? ORDER BY id DESC LIMIT ?"
WAITING_TRANSACTIONS = f"""
SELECT {_FROM}
WHERE next_attempt_at_ms >= 0 AND {_IS_WAITING} AND sender = coalesce(?, sender)
ORDER BY asked_at_ms, id LIMIT ?
"""

SWEEP = """
DELETE FROM wallet_transactions WHERE id IN
    (SELECT id FROM wallet_transactions WHERE settled_at_ms < ? ORDER BY settled_at_ms LIMIT ?)
"""
