"""All subscribers of a project: one long answer, in the order of account ids, read as it arrives."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import orjson

from bridge_server.client.http.requests import HttpRequests
from bridge_server.client.session.errors import BadAnswerError

_LONGEST_REST_BYTES = 1_048_576
"""Bytes without the end of a string: far longer than any account id."""


class Listing:
    """The account ids that follow `after`. After a failure another reading goes on behind the last one."""

    def __init__(self, requests: HttpRequests, path: str, after: str = "") -> None:
        self._requests = requests
        self._path = path
        self._after = after

    async def pages(self) -> AsyncGenerator[list[str]]:
        """Ask for the listing, and yield pages of it. Raises what `HttpRequests.attempt` raises."""
        pieces = StringArray()
        async with aclosing(self._requests.pieces(self._path)) as answer:
            async for piece in answer:
                for page in self._following(pieces.feed(piece)):
                    yield page
        for page in self._following(pieces.end()):
            yield page

    def _following(self, accounts: list[str]) -> list[list[str]]:
        """The accounts behind the last one, as a page; no page if there are none."""
        following = [account for account in accounts if account > self._after]
        if not following:
            return []
        self._after = following[-1]
        return [following]


class StringArray:
    """Reads a JSON array of account ids piece by piece. No account id has a quotation mark or a comma."""

    def __init__(self) -> None:
        self._rest = b""
        self._opening = b"["

    def feed(self, piece: bytes) -> list[str]:
        """The strings that are complete by now. Raises BadAnswerError."""
        self._rest += piece
        end = self._rest.rfind(b'",') + 1
        if not end:
            if len(self._rest) > _LONGEST_REST_BYTES:
                raise _not_a_listing()
            return []
        complete, self._rest = self._rest[:end], self._rest[end:]
        return self._strings(complete + b"]")

    def end(self) -> list[str]:
        """The last strings. Raises BadAnswerError if the array has no end."""
        return self._strings(self._rest)

    def _strings(self, text: bytes) -> list[str]:
        """The strings of a part of the array, which begins with `[` at its start, later with a comma."""
        if not text.startswith(self._opening):
            raise _not_a_listing()
        self._opening = b","
        try:
            strings = orjson.loads(b"[" + text[1:])
        except orjson.JSONDecodeError as error:
            raise _not_a_listing() from error
        if not isinstance(strings, list) or not all(isinstance(each, str) for each in strings):
            raise _not_a_listing()
        return strings


def _not_a_listing() -> BadAnswerError:
    return BadAnswerError("The server's answer is no list of accounts. Is the URL that of its root?")
