"""Rows of the admin API."""

from collections.abc import Callable
from dataclasses import dataclass

from bridge_server.web.routes import Handler, Route

ANY_ID = "[^/]{1,128}"
"""The pattern of an id in a path."""
# An account id has at most 170 characters. Up to 128 of them are percent signs, which arrive as %25.
ANY_ACCOUNT = "[^/]{1,426}"
"""The pattern of an account in a path."""


@dataclass(frozen=True, slots=True)
class AdminRows:
    """Makes rows that require the admin token. No web page may call them."""

    bearer: Callable[[str], bool]
    body_limit_bytes: int

    def read(self, path: str, name: str, handler: Handler, *, waits: bool = False) -> Route:
        """A row that answers GET."""
        return Route(
            method="GET", path=path, name=name, handler=handler, bearer=self.bearer, who="operator",
            waits=waits,
        )  # fmt: skip

    def write(self, method: str, path: str, name: str, handler: Handler) -> Route:
        """A row that changes something."""
        return Route(
            method=method, path=path, name=name, handler=handler,
            body_limit_bytes=self.body_limit_bytes, bearer=self.bearer, who="operator",
        )  # fmt: skip
