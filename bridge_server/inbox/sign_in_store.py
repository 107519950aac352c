"""The store of nonces and tokens."""

from bridge_server.inbox.errors import NonceRefusedError
from bridge_server.inbox.events import SignedOut
from bridge_server.inbox.models import Nonce, Reader
from bridge_server.projects.caip10 import Account
from bridge_server.projects.subscription_store import account_number
from bridge_server.storage.database import (
    Database,
    Statement,
    Transaction,
    adding_transaction,
    scalar,
    transaction,
)
from bridge_server.storage.turns import sweeping

_INSERT_NONCE = "INSERT INTO sign_in_nonces (nonce, expires_at_ms) VALUES (?, ?)"
_USE_NONCE = "DELETE FROM sign_in_nonces WHERE nonce = ? AND expires_at_ms > ?"
_SIGN_IN = """
INSERT INTO inbox_tokens (digest, account, account_id, expires_at_ms) VALUES (?, ?, ?, ?)
"""
_READER = """
SELECT inbox_tokens.account, accounts.account_key, inbox_tokens.account_id, inbox_tokens.expires_at_ms
FROM inbox_tokens JOIN accounts ON accounts.id = inbox_tokens.account
WHERE inbox_tokens.digest = ? AND inbox_tokens.expires_at_ms > ?
"""
_SIGN_OUT = "DELETE FROM inbox_tokens WHERE digest = ?"
SWEEPS = (
    """
    DELETE FROM sign_in_nonces WHERE nonce IN
        (SELECT nonce FROM sign_in_nonces WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
    """,
    """
    DELETE FROM inbox_tokens WHERE digest IN
        (SELECT digest FROM inbox_tokens WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
    """,
)
_SWEEP_SLICE = 500


class SignInStore:
    """Durable nonces and tokens. Rows that have expired at `now_ms` are not found."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @adding_transaction
    def add_nonce(self, nonce: Nonce) -> Transaction[None]:
        """Store a nonce."""
        yield Statement(_INSERT_NONCE, (nonce.text, nonce.expires_at_ms))

    @adding_transaction
    def sign_in(
        self, nonce: str, account: Account, digest: bytes, expires_at_ms: int, now_ms: int
    ) -> Transaction[None]:
        """Use the nonce up and store the token's digest, or do neither. Raises NonceRefusedError."""
        ((used,),) = yield Statement(_USE_NONCE, (nonce, now_ms))
        if not used:
            raise NonceRefusedError
        number = yield from account_number(account.key)
        yield Statement(_SIGN_IN, (digest, number, account.spelled, expires_at_ms))

    async def reader(self, digest: bytes, now_ms: int) -> Reader | None:
        """The account whose token has this digest, or None."""
        rows = await self.database.read(_READER, (digest, now_ms))
        if not rows:
            return None
        number, key, spelled, expires_at_ms = rows[0]
        account = Account(key, spelled)
        return Reader(number, account, digest, expires_at_ms)

    @transaction
    def sign_out(self, digest: bytes) -> Transaction[None]:
        """Remove the token. Publishes `SignedOut`."""
        yield Statement(_SIGN_OUT, (digest,))
        yield SignedOut(digest.hex())

    @transaction(turns=sweeping("sign-ins"))
    def sweep(self, now_ms: int) -> Transaction[int]:
        """Delete a slice of the expired rows; returns how many."""
        for statement in SWEEPS:
            deleted = scalar(int, (yield Statement(statement, (now_ms, _SWEEP_SLICE))))
            if deleted:
                return deleted
        return 0
