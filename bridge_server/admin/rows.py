"""Rows of the admin API."""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from bridge_server.kernel.errors import BridgeError, ForbiddenError
from bridge_server.web.hosts import Hosts, host_of
from bridge_server.web.routes import Handler, Route

ANY_ID = "[^/]{1,128}"
"""The pattern of an id in a path."""
# An account id has at most 170 characters. Up to 128 of them are percent signs, which arrive as %25.
ANY_ACCOUNT = "[^/]{1,426}"
"""The pattern of an account in a path."""


def guard_of(hosts: Hosts) -> Callable[[web.Request], None]:
    """A guard that raises ForbiddenError for a request to another host: by DNS rebinding a web page's own
    host name can lead to this machine.
    """

    def guard(request: web.Request) -> None:
        if not hosts.admit(request):
            raise ForbiddenError(
                f"The admin API does not answer to the host {host_of(request)[:255]!r}: reach it as "
                "localhost or by its address, or name the host in rpc_hosts."
            )

    return guard


@dataclass(frozen=True, slots=True)
class AdminRows:
    """Makes rows behind the guard that require the admin token. No web page may call them.

    `on_refusal` gets each request that is turned away.
    """

    bearer: Callable[[str], bool]
    body_limit_bytes: int
    guard: Callable[[web.Request], None]
    on_refusal: Callable[[web.Request, BridgeError], None]

    def read(self, path: str, name: str, handler: Handler, *, waits: bool = False) -> Route:
        """A row that answers GET."""
        return self._row("GET", path, name, handler, 0, waits=waits)

    def write(self, method: str, path: str, name: str, handler: Handler) -> Route:
        """A row that changes something."""
        return self._row(method, path, name, handler, self.body_limit_bytes)

    def _row(
        self, method: str, path: str, name: str, handler: Handler, body_limit: int, *, waits: bool = False
    ) -> Route:
        return Route(
            method=method, path=path, name=name, handler=handler, body_limit_bytes=body_limit,
            guard=self.guard, bearer=self.bearer, on_refusal=self.on_refusal, who="operator",
            waits=waits,
        )  # fmt: skip
