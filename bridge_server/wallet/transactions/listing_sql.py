"""The statements that list transactions for the operator: a page looks at a bounded number of rows."""

_ROWS = """
id, transaction_id, sender, params, caller, asked_at_ms, state, chain_id, nonce, transaction_hash, attempts,
next_attempt_at_ms, error, settled_at_ms
"""

# The parameters may be large, and a page has many: only the shown part of them is taken.
PAGE = f"""
SELECT id, transaction_id, sender,
       json_extract(CAST(params AS TEXT), '$.to'),
       CASE WHEN json_type(CAST(params AS TEXT)) = 'object'
            THEN coalesce(json_extract(CAST(params AS TEXT), '$.value'), '0x0') END,
       CASE WHEN json_type(CAST(params AS TEXT)) = 'text' AND length(params) <= ?5 THEN params END,
       caller, asked_at_ms, state, chain_id, nonce, transaction_hash, attempts, next_attempt_at_ms, error,
       settled_at_ms
FROM (SELECT {_ROWS} FROM wallet_transactions WHERE id < ?1 ORDER BY id DESC LIMIT ?2) AS latest
WHERE state = coalesce(?3, state) ORDER BY id DESC LIMIT ?4
"""  # noqa: S608  a constant of this module
PAGE_REST = "SELECT id FROM wallet_transactions WHERE id < ? ORDER BY id DESC LIMIT 1 OFFSET ?"
