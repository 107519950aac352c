"""Sign-in to the console: a link that works once becomes a session of 12 hours.

Both go by the machine's clock, also where tests move the server's: moving it would sign the operator out.
"""

import hashlib
import hmac
from collections.abc import Callable

from bridge_server.console.errors import LinkRefusedError
from bridge_server.console.models import ConsoleSession
from bridge_server.console.store import AccessStore
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.secrets import digest, new_secret

LINK_MS = 5 * 60 * 1000
SESSION_MS = 12 * 3600 * 1000
_FORM = b"form of the console"


class ConsoleAccess:
    """Makes links and sessions, of which only digests are stored."""

    def __init__(self, store: AccessStore, clock: Clock, random_bytes: Callable[[int], bytes]) -> None:
        self._store = store
        self._clock = clock
        self._random_bytes = random_bytes

    async def new_link(self) -> str:
        """The token of a new link, which signs in once within 5 minutes."""
        token = new_secret(self._random_bytes)
        await self._store.add_link(digest(token), self._clock.now_ms() + LINK_MS)
        return token

    async def sign_in(self, link: str) -> str:
        """Use the link up; returns the token of a new session. Raises LinkRefusedError."""
        now_ms, token = self._clock.now_ms(), new_secret(self._random_bytes)
        if not await self._store.has_link(digest(link), now_ms):  # a stranger's guess writes nothing
            raise LinkRefusedError
        await self._store.sign_in(digest(link), digest(token), now_ms + SESSION_MS, now_ms)
        return token

    async def session(self, token: str) -> ConsoleSession | None:
        """The session of this token; None if there is none, or none any more."""
        key = digest(token)
        expires_at_ms = await self._store.expiry(key, self._clock.now_ms())
        return None if expires_at_ms is None else ConsoleSession(key, expires_at_ms, _form_token(token))

    async def lasts(self, session: ConsoleSession) -> bool:
        """Whether nobody has ended the session yet."""
        return await self._store.expiry(session.digest, self._clock.now_ms()) is not None

    async def sign_out(self, session: ConsoleSession) -> None:
        """End the session."""
        await self._store.sign_out(session.digest)

    async def sign_out_all(self) -> int:
        """End every session and every link; returns how many sessions there were."""
        return await self._store.sign_out_all()

    async def sweep(self, _: int) -> int:
        """Delete a slice of what has expired; returns how many rows."""
        return await self._store.sweep(self._clock.now_ms())


def _form_token(token: str) -> str:
    return hmac.new(token.encode(), _FORM, hashlib.sha256).hexdigest()
