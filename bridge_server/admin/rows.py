"""Rows, answers, pages and handles that the subjects of the admin API share."""

import base64
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar
from uuid import UUID

from aiohttp import web
from Crypto.Cipher import AES

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.values import dataclass
from bridge_server.web.bodies import Shape, check, json_object
from bridge_server.web.routes import About, Access, Route
from bridge_server.web.shapes import Work, answering, returned

Read = TypeVar("Read", bound=Shape)
Kind = TypeVar("Kind", bound=StrEnum)

ANY_ID = "[^/]{1,128}"  # the pattern of an id in a path
# An account id has at most 170 characters. Up to 128 of them are percent signs, which arrive as %25.
ANY_ACCOUNT = "[^/]{1,426}"  # the pattern of an account in a path

_USUAL_PAGE = 100
_LONGEST_PAGE = 1000
_PAGE_SIZE = re.compile(r"[0-9]{1,9}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
KEY_BYTES = 16  # the length of the key of `Handles`
_HANDLE_CHARACTERS = 22
_SHOWN_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class AdminRows:
    """Makes rows with this access. `tag` is their heading in the description."""

    access: Access
    body_limit_bytes: int
    tag: str = ""

    def under(self, tag: str) -> "AdminRows":
        """Makes rows under another heading."""
        return replace(self, tag=tag)

    def read(self, path: str, name: str, work: Work, summary: str, meaning: str, **about: Any) -> Route:
        """A row that answers GET. `meaning` is the answer's; `about` has further fields of About."""
        return self.write("GET", path, name, work, summary, meaning, **about)

    def write(
        self, method: str, path: str, name: str, work: Work, summary: str, meaning: str, *,
        of: Callable[..., Awaitable[object]] | None = None, waits: bool = False, **about: Any,
    ) -> Route:  # fmt: skip
        """A row that changes something, or answers GET. `of` describes it, where `work` only calls that."""
        described = work if of is None else of
        about = {"answers": returned(described, meaning), **about}
        return Route(
            method=method, path=path, name=name, handler=answering(work), access=self.access, waits=waits,
            body_limit_bytes=0 if method == "GET" else self.body_limit_bytes, who="operator",
            about=About(work=described, tag=self.tag, summary=summary, **about),
        )  # fmt: skip


async def body(request: web.Request, shape: type[Read]) -> Read:
    """The body of a request, checked. Raises InvalidInputError, UnsupportedMediaError."""
    return check(shape, (await json_object(request)).values)


def wanted_page(request: web.Request) -> tuple[str, int]:
    """The query parameters `after` (empty for the first page) and `limit`. Raises InvalidInputError."""
    if len(set(request.query)) < len(request.query):
        raise InvalidInputError("Each query parameter must be given once.")
    limit = request.query.get("limit", str(_USUAL_PAGE))
    if not _PAGE_SIZE.fullmatch(limit) or not 1 <= int(limit) <= _LONGEST_PAGE:
        raise InvalidInputError(f"The query parameter limit takes 1 to {_LONGEST_PAGE}.")
    return request.query.get("after", ""), int(limit)


def read_after(after: str) -> int | None:
    """The parameter `after` where entries have numbers; None for the first page. Raises InvalidInputError."""
    return None if read_place(after, _NUMBER) is None else int(after)


def read_place(after: str, spelling: re.Pattern[str]) -> re.Match[str] | None:
    """The parameter `after` in the spelling of a list; None for the first page. Raises InvalidInputError."""
    found = spelling.fullmatch(after)
    if after and found is None:
        raise InvalidInputError("The query parameter after takes the next of the page before.")
    return found


def read_choice(name: str, word: str | None, kinds: type[Kind]) -> Kind | None:
    """One of the words that the query parameter takes; None without one. Raises InvalidInputError."""
    if word is not None and word not in list(kinds):
        raise InvalidInputError(f"The query parameter {name} takes {', '.join(kinds)}.")
    return None if word is None else kinds(word)


class Handles:
    """Turns an id into its handle and back. Operators name sessions and calls by handles, as ids are
    capabilities. Ids that the server has not made, which are no UUIDs, have no handle.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = AES.new(key, AES.MODE_ECB)  # one block: no two ids share a part of their handles
        self.of = lru_cache(maxsize=4_096)(self._of)

    def id_of(self, handle: str) -> str | None:
        """The id that has this handle; None for a text that is no handle."""
        try:
            sealed = base64.b64decode(handle + "==", altchars=b"-_", validate=True)
        except ValueError:
            return None
        if len(handle) != _HANDLE_CHARACTERS or len(sealed) != AES.block_size:
            return None
        return str(UUID(bytes=self._cipher.decrypt(sealed)))

    def _of(self, any_id: str) -> str | None:
        """The handle of this id; None for an id that the server has not made."""
        try:
            uuid = UUID(any_id)
        except ValueError:
            return None
        if str(uuid) != any_id:
            return None
        return base64.urlsafe_b64encode(self._cipher.encrypt(uuid.bytes)).rstrip(b"=").decode()


def shortened(any_id: str) -> str:
    """The first characters of an id: the operator can tell ids apart, and nobody can use them."""
    return any_id if len(any_id) <= _SHOWN_CHARACTERS else f"{any_id[:_SHOWN_CHARACTERS]}…"
