"""Handshakes of generation 2.x: the token and the project of a client."""

from collections.abc import Callable

from aiohttp import web

from bridge_server.pubsub.irn.errors import InvalidTokenError, ProjectNotAllowedError
from bridge_server.pubsub.irn.models import ClientKey
from bridge_server.pubsub.irn.tokens import ClientTokens

_BEARER = "bearer "


class ClientAdmission:
    """Checks tokens and projects. `audience_of` is the URL that tokens have to be for; None if that is not
    checked. An empty set of `projects` allows every one.
    """

    def __init__(
        self, tokens: ClientTokens, audience_of: Callable[[web.Request], str | None], projects: frozenset[str]
    ) -> None:
        self._tokens = tokens
        self._audience_of = audience_of
        self._projects = projects

    async def client(self, request: web.Request) -> ClientKey:
        """The client that connects. Raises InvalidTokenError."""
        token = _token(request)
        if token is None:
            raise InvalidTokenError
        return await self._tokens.client_of(token, self._audience_of(request))

    def require_project(self, request: web.Request) -> None:
        """Raise ProjectNotAllowedError unless the project may connect."""
        if self._projects and request.query.get("projectId") not in self._projects:
            raise ProjectNotAllowedError


def has_token(request: web.Request) -> bool:
    """Whether the request is made as clients of generation 2.x make it."""
    return _token(request) is not None


def _token(request: web.Request) -> str | None:
    authorization = request.headers.get("Authorization", "")
    if authorization.lower().startswith(_BEARER):
        return authorization[len(_BEARER) :].strip()
    return request.query.get("auth")
