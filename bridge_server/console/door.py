"""The console's door: it refuses requests that may not reach a page, or may not change anything."""

import hmac
from collections.abc import Callable, Mapping

from aiohttp import web

from bridge_server.console.access import ConsoleAccess
from bridge_server.console.cookies import SessionCookies
from bridge_server.console.errors import ForgedChangeError, FramedError, SignedOutError, WrongHostError
from bridge_server.console.models import ConsoleSession
from bridge_server.kernel.errors import BridgeError
from bridge_server.web.hosts import Hosts, host_of

FORM_TOKEN = "form_token"  # noqa: S105 - the name of a field
_INSIDE_OF_A_PAGE = frozenset({"iframe", "frame", "embed", "object"})


class Door:
    """Refuses requests that do not come from the operator's own browser window."""

    def __init__(
        self,
        access: ConsoleAccess,
        cookies: SessionCookies,
        hosts: Hosts,
        note_refusal: Callable[[web.Request, BridgeError], None],
    ) -> None:
        self._access = access
        self._cookies = cookies
        self._hosts = hosts
        self.note_refusal = note_refusal

    def require_own_window(self, request: web.Request) -> None:
        """Raise WrongHostError for another host, as in DNS rebinding, and FramedError inside of a page."""
        if not self._hosts.admit(request):
            raise WrongHostError(host_of(request))
        if request.headers.get("Sec-Fetch-Dest") in _INSIDE_OF_A_PAGE:
            raise FramedError

    async def session(self, request: web.Request) -> ConsoleSession:
        """The session of the request. Raises SignedOutError."""
        token = self._cookies.token(request)
        session = await self._access.session(token) if token else None
        if session is None:
            raise SignedOutError
        return session

    def require_own_form(
        self, request: web.Request, session: ConsoleSession, form: Mapping[str, str]
    ) -> None:
        """Raise ForgedChangeError unless a page of this console has sent the form for this session."""
        sent = form.get(FORM_TOKEN, "").encode()
        if not _is_same_origin(request) or not hmac.compare_digest(sent, session.form_token.encode()):
            raise ForgedChangeError


def _is_same_origin(request: web.Request) -> bool:
    """Whether the browser calls the request same-origin. Other clients have only the form's token to show."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        return False
    origin, host = request.headers.get("Origin"), host_of(request)
    return origin is None or origin in (f"http://{host}", f"https://{host}")
