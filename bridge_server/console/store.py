"""The store of sign-in links and sessions: digests only."""

from bridge_server.console import sql
from bridge_server.console.errors import LinkRefusedError
from bridge_server.storage.database import (
    Database,
    Statement,
    Transaction,
    Turn,
    Turns,
    scalar,
    transaction,
)
from bridge_server.storage.turns import always, sweeping

_SWEEP_SLICE = 500

# A sign-in that is under way while everybody is signed out comes before or after that, not half before.
_ACCESS = Turn("console-access")
_with_others = always(Turns(shared=(_ACCESS,)))
_without_others = always(Turns((_ACCESS,)))


class AccessStore:
    """Durable links and sessions. Rows that have expired at `now_ms` are not found."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @transaction
    def add_link(self, digest: bytes, expires_at_ms: int) -> Transaction[None]:
        """Store a link."""
        yield Statement(sql.INSERT_LINK, (digest, expires_at_ms))

    async def has_link(self, digest: bytes, now_ms: int) -> bool:
        """Whether the link can be used."""
        return bool(await self.database.read(sql.LINK, (digest, now_ms)))

    @transaction(turns=_with_others)
    def sign_in(self, link: bytes, session: bytes, expires_at_ms: int, now_ms: int) -> Transaction[None]:
        """Use the link up and store the session, or do neither. Raises LinkRefusedError."""
        if not scalar(int, (yield Statement(sql.USE_LINK, (link, now_ms)))):
            raise LinkRefusedError
        yield Statement(sql.INSERT_SESSION, (session, expires_at_ms))

    async def expiry(self, session: bytes, now_ms: int) -> int | None:
        """The end of the session; None if there is none."""
        rows = await self.database.read(sql.SESSION, (session, now_ms))
        return scalar(int, rows) if rows else None

    @transaction
    def sign_out(self, session: bytes) -> Transaction[None]:
        """Delete a session."""
        yield Statement(sql.END_SESSION, (session,))

    @transaction(turns=_without_others)
    def sign_out_all(self) -> Transaction[int]:
        """Delete every session and every link; returns how many sessions there were."""
        yield Statement(sql.END_LINKS)
        return scalar(int, (yield Statement(sql.END_SESSIONS)))

    @transaction(turns=sweeping("console"))
    def sweep(self, now_ms: int) -> Transaction[int]:
        """Delete a slice of the expired rows; returns how many."""
        for statement in sql.SWEEPS:
            deleted = scalar(int, (yield Statement(statement, (now_ms, _SWEEP_SLICE))))
            if deleted:
                return deleted
        return 0
