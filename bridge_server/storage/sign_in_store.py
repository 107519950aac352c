"""Nonces and tokens in SQL."""

from __future__ import annotations  # those of inner functions would be evaluated at every call

from typing import cast

from bridge_server.inbox.errors import NonceRefusedError
from bridge_server.inbox.models import Nonce, Reader
from bridge_server.inbox.store import SIGNED_OUT
from bridge_server.kernel.caip10 import Account
from bridge_server.storage.database import Announcement, Database, Statement, Transaction
from bridge_server.storage.subscription_store import account_number

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
_SWEEPS = (
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


class SqlSignInStore:
    """Implements the store of sign-ins on any database that speaks the portable SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_nonce(self, nonce: Nonce) -> None:
        def work() -> Transaction[None]:
            yield Statement(_INSERT_NONCE, (nonce.text, nonce.expires_at_ms))

        await self._database.transaction(work, adds=True)

    async def sign_in(
        self, nonce: str, account: Account, digest: bytes, expires_at_ms: int, now_ms: int
    ) -> None:
        def work() -> Transaction[None]:
            ((used,),) = yield Statement(_USE_NONCE, (nonce, now_ms))
            if not used:
                raise NonceRefusedError
            number = yield from account_number(account.key)
            yield Statement(_SIGN_IN, (digest, number, account.spelled, expires_at_ms))

        await self._database.transaction(work, adds=True)

    async def reader(self, digest: bytes, now_ms: int) -> Reader | None:
        rows = await self._database.read(_READER, (digest, now_ms))
        if not rows:
            return None
        number, key, spelled, expires_at_ms = rows[0]
        account = Account(cast(str, key), cast(str, spelled))
        return Reader(cast(int, number), account, digest, cast(int, expires_at_ms))

    async def sign_out(self, digest: bytes) -> None:
        def work() -> Transaction[None]:
            yield Statement(_SIGN_OUT, (digest,))
            yield Announcement((SIGNED_OUT, digest.hex()))

        await self._database.transaction(work)

    async def sweep(self, now_ms: int) -> int:
        def work() -> Transaction[int]:
            for statement in _SWEEPS:
                ((deleted,),) = yield Statement(statement, (now_ms, _SWEEP_SLICE))
                if deleted:
                    return cast(int, deleted)
            return 0

        return await self._database.transaction(work)
