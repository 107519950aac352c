"""Sign-in to the console: a link that works once becomes a session of 12 hours. Both follow the machine's
clock: a test that moves the server's does not sign the operator out.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping

import structlog
from aiohttp import web
from yarl import URL

from bridge_server.console.models import ROOT, ConsoleSession
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, ForbiddenError, GoneError, NotAuthenticatedError
from bridge_server.kernel.events import Events
from bridge_server.kernel.secrets import digest, new_secret
from bridge_server.kernel.signals import Key, Signals, Touched
from bridge_server.storage import database as sql
from bridge_server.web.addresses import ClientAddresses, Hosts, host_of

LINK_MS = 5 * 60 * 1000
SESSION_MS = 12 * 3600 * 1000
_SWEEP_SLICE = 500
_SESSIONS: Key = ("console", "sessions")  # the signal that some session has ended
_CHECK_SECONDS = 15.0  # the pause between two checks of a stream whether its session has expired

_WINDOW_US = 60_000_000
_MOST_LINES = 20  # in a window: without a limit, the requests of a stranger would fill the log

log = structlog.get_logger()


class RefusedAttempts:
    """Writes a line for each reason and client at most once a minute, with the number of lines left out."""

    def __init__(self, addresses: ClientAddresses, clock: Clock) -> None:
        self._addresses, self._clock = addresses, clock
        self._until_us = 0
        self._written: set[tuple[str, str]] = set()
        self._left_out = 0

    def note(self, request: web.Request, error: BridgeError) -> None:
        """Note a request that was refused with this error."""
        key = error.code, self._addresses.client(request)
        if self._clock.elapsed_us() >= self._until_us:
            self._until_us = self._clock.elapsed_us() + _WINDOW_US
            self._written.clear()
        if key in self._written or len(self._written) >= _MOST_LINES:
            self._left_out += 1
            return
        self._written.add(key)
        left_out, self._left_out = self._left_out, 0
        more = {"left_out": left_out} if left_out else {}
        log.warning("console_refused", reason=error.title, client=key[1], **more)


class SignedOutError(NotAuthenticatedError, code="console-signed-out", title="You are not signed in"):
    """The request belongs to no session of the console."""

    detail = (
        "Run `bridge-server console` on the server's machine, and open the link that it prints. "
        "A sign-in lasts 12 hours."
    )


class LinkRefusedError(GoneError, code="console-link-refused", title="This link does not sign in"):
    """The sign-in link has been used, or is too old."""

    detail = (
        "A link signs in once, and within 5 minutes. Run `bridge-server console` again, and open the new "
        "link."
    )


class ForgedChangeError(ForbiddenError, code="console-forged-change", title="Nothing was changed"):
    """A change that no page of this console has sent for this session."""

    detail = (
        "The form did not come from a page of this console, or from one that is older than the sign-in. "
        "Open the page again, and repeat the change."
    )


class WrongHostError(
    ForbiddenError, code="console-wrong-host", title="The console does not answer to this host"
):
    """The request names a host that is not this server."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"It was called {host[:255]!r}. Open it as localhost, by the address of its machine, or by the "
            "host of public_url."
        )


class FramedError(
    ForbiddenError, code="console-framed", title="The console is not shown inside of other pages"
):
    """A page of the console is to be shown inside of another page."""

    detail = "Open the console in a window of its own: its address is below."


REFUSED_ATTEMPTS = (SignedOutError, LinkRefusedError, ForgedChangeError, WrongHostError, FramedError)
"""Failures that a stranger may have caused: these are logged."""

INSERT_LINK = "INSERT INTO console_links (digest, expires_at_ms) VALUES (?, ?)"
LINK = "SELECT 1 FROM console_links WHERE digest = ? AND expires_at_ms > ?"
USE_LINK = "DELETE FROM console_links WHERE digest = ? AND expires_at_ms > ?"
INSERT_SESSION = "INSERT INTO console_sessions (digest, expires_at_ms) VALUES (?, ?)"
SESSION = "SELECT expires_at_ms FROM console_sessions WHERE digest = ? AND expires_at_ms > ?"
END_SESSION = "DELETE FROM console_sessions WHERE digest = ?"
END_SESSIONS = "DELETE FROM console_sessions"
END_LINKS = "DELETE FROM console_links"
SWEEPS = tuple(
    f"""
    DELETE FROM {table} WHERE digest IN
        (SELECT digest FROM {table} WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
    """  # noqa: S608 - the names are below
    for table in ("console_links", "console_sessions")
)


# A sign-in and a sign-out of everybody exclude each other.
_ACCESS = sql.Turn("console-access")
_with_others = sql.always(sql.Turns(shared=(_ACCESS,)))
_without_others = sql.always(sql.Turns((_ACCESS,)))


class AccessStore:
    """Durable links and sessions. Rows that have expired at `now_ms` are not found."""

    def __init__(self, database: sql.Database) -> None:
        self.database = database

    @sql.transaction
    def add_link(self, digest: bytes, expires_at_ms: int) -> sql.Transaction[None]:
        """Store a link."""
        yield sql.Statement(INSERT_LINK, (digest, expires_at_ms))

    async def has_link(self, digest: bytes, now_ms: int) -> bool:
        """Whether the link can be used."""
        return bool(await self.database.read(LINK, (digest, now_ms)))

    @sql.transaction(turns=_with_others)
    def sign_in(self, link: bytes, session: bytes, expires_at_ms: int, now_ms: int) -> sql.Transaction[None]:
        """Use the link up and store the session, or do neither. Raises LinkRefusedError."""
        if not sql.scalar(int, (yield sql.Statement(USE_LINK, (link, now_ms)))):
            raise LinkRefusedError
        yield sql.Statement(INSERT_SESSION, (session, expires_at_ms))

    async def expiry(self, session: bytes, now_ms: int) -> int | None:
        """The end of the session; None if there is none."""
        rows = await self.database.read(SESSION, (session, now_ms))
        return sql.scalar(int, rows) if rows else None

    @sql.transaction
    def sign_out(self, session: bytes) -> sql.Transaction[None]:
        """Delete a session, and have streams check whether theirs has ended."""
        yield sql.Statement(END_SESSION, (session,))
        yield Touched(_SESSIONS)

    @sql.transaction(turns=_without_others)
    def sign_out_all(self) -> sql.Transaction[int]:
        """Delete every session and every link; returns how many sessions there were."""
        yield sql.Statement(END_LINKS)
        yield Touched(_SESSIONS)
        return sql.scalar(int, (yield sql.Statement(END_SESSIONS)))

    @sql.transaction(turns=sql.sweeping("console"))
    def sweep(self, now_ms: int) -> sql.Transaction[int]:
        """Delete a slice of the expired rows; returns how many."""
        for statement in SWEEPS:
            deleted = sql.scalar(int, (yield sql.Statement(statement, (now_ms, _SWEEP_SLICE))))
            if deleted:
                return deleted
        return 0


class ConsoleAccess:
    """Makes links and sessions, of which only digests are stored."""

    def __init__(self, store: AccessStore, clock: Clock, random_bytes: Callable[[int], bytes]) -> None:
        self.store, self._clock, self._random_bytes = store, clock, random_bytes

    async def new_link(self, lifetime_ms: int = LINK_MS) -> str:
        """The token of a new link, which signs in once within its lifetime."""
        token = new_secret(self._random_bytes)
        await self.store.add_link(digest(token), self._clock.now_ms() + lifetime_ms)
        return token

    async def sign_in(self, link: str) -> str:
        """Use the link up; returns the token of a new session. Raises LinkRefusedError."""
        now_ms, token = self._clock.now_ms(), new_secret(self._random_bytes)
        if not await self.store.has_link(digest(link), now_ms):  # a stranger's guess writes nothing
            raise LinkRefusedError
        await self.store.sign_in(digest(link), digest(token), now_ms + SESSION_MS, now_ms)
        return token

    async def session(self, token: str) -> ConsoleSession | None:
        """The session of this token; None if there is none, or none any more."""
        key = digest(token)
        expires_at_ms = await self.store.expiry(key, self._clock.now_ms())
        form_token = hmac.new(token.encode(), b"form of the console", hashlib.sha256).hexdigest()
        return None if expires_at_ms is None else ConsoleSession(key, expires_at_ms, form_token)

    async def has_ended(self, session: ConsoleSession) -> bool:
        """Whether the session was ended, or has expired."""
        return await self.store.expiry(session.digest, self._clock.now_ms()) is None

    async def sweep(self, _: int) -> int:
        """Delete a slice of what has expired; returns how many rows."""
        return await self.store.sweep(self._clock.now_ms())


class SessionEnds:
    """Ends streams of events when the session of their browser has ended."""

    def __init__(self, access: ConsoleAccess, events: Events) -> None:
        self._access = access
        self._signals = Signals()  # of the console alone: its pages are no clients that wait
        self._signals.subscribe_to(events)
        events.subscribe(sql.ChangedOutside, lambda _: self._signals.touch(_SESSIONS))

    async def of(self, session: ConsoleSession) -> None:
        """Return once the session was signed out, by any process or command, or has expired."""

        async def has_ended() -> bool | None:
            return await self._access.has_ended(session) or None

        while await self._signals.wait_for(_SESSIONS, has_ended, _CHECK_SECONDS) is None:
            pass


# The cookie of a session.
#
# Browsers send cookies to every port of a host: without TLS the name has the port, so that two servers on one
# machine do not take each other's.

_SECURE_NAME = "__Host-bridge-console"


class SessionCookies:
    """Reads and writes the cookie. `public_url` says under which host browsers come over TLS."""

    def __init__(self, public_url: str | None) -> None:
        url = URL(public_url or "")
        self._secure_host = url.host if url.scheme == "https" else None

    def token(self, request: web.Request) -> str:
        """The token that the request carries; empty without one."""
        return request.cookies.get(self._name(request), "")

    def keep(self, request: web.Request, token: str) -> str:
        """The header field that has the browser keep the token."""
        return self._spell(request, token, SESSION_MS // 1000)

    def forget(self, request: web.Request) -> str:
        """The header field that has the browser forget the token."""
        return self._spell(request, "", 0)

    def is_secure(self, request: web.Request) -> bool:
        """Whether the browser came over TLS, which a proxy ends."""
        try:
            host = URL(f"//{host_of(request)}").host if self._secure_host else None
        except ValueError:  # the client sends what it likes, such as a port beyond 65535
            return False
        return host is not None and host == self._secure_host

    def _name(self, request: web.Request) -> str:
        if self.is_secure(request):
            return _SECURE_NAME
        _, _, port = host_of(request).rpartition(":")
        return f"bridge-console-{port}" if port.isascii() and port.isdigit() else "bridge-console"

    def _spell(self, request: web.Request, token: str, seconds: int) -> str:
        path = "; Path=/; Secure" if self.is_secure(request) else f"; Path={ROOT}"
        return f"{self._name(request)}={token}{path}; HttpOnly; SameSite=Strict; Max-Age={seconds}"


FORM_TOKEN = "form_token"  # noqa: S105 - the name of a field
_INSIDE_OF_A_PAGE = frozenset({"iframe", "frame", "embed", "object"})


class Door:
    """Refuses requests that do not come from the operator's own browser window."""

    def __init__(
        self,
        access: ConsoleAccess,
        cookies: SessionCookies,
        ends: SessionEnds,
        hosts: Hosts,
        note_refusal: Callable[[web.Request, BridgeError], None],
    ) -> None:
        self.access, self.cookies, self.ends = access, cookies, ends
        self._hosts, self.note_refusal = hosts, note_refusal

    def require_own_window(self, request: web.Request) -> None:
        """Raise WrongHostError for another host, as in DNS rebinding, and FramedError inside of a page."""
        if not self._hosts.admit(request):
            raise WrongHostError(host_of(request))
        if request.headers.get("Sec-Fetch-Dest") in _INSIDE_OF_A_PAGE:
            raise FramedError

    async def session(self, request: web.Request) -> ConsoleSession:
        """The session of the request. Raises SignedOutError."""
        token = self.cookies.token(request)
        session = await self.access.session(token) if token else None
        if session is None:
            raise SignedOutError
        return session

    def require_own_form(
        self, request: web.Request, session: ConsoleSession, form: Mapping[str, str]
    ) -> None:
        """Raise ForgedChangeError unless a page of this console has sent the form for this session."""
        host, sent = host_of(request), form.get(FORM_TOKEN, "").encode()
        is_same_origin = request.headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"
        is_same_origin &= request.headers.get("Origin") in (None, f"http://{host}", f"https://{host}")
        if not is_same_origin or not hmac.compare_digest(sent, session.form_token.encode()):
            raise ForgedChangeError
