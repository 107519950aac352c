"""One request, and its answer as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tests.support.described import description
from tests.support.problems import checked_problem
from tests.support.server import RunningServer

_PATIENCE = aiohttp.ClientTimeout(total=180)


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything that came back."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body of an answer that must be 200 and JSON."""
        assert (self.status, self.headers["Content-Type"]) == (200, "application/json"), self
        return orjson.loads(self.body)

    def problem(self, status: int) -> dict[str, Any]:
        """The problem of an answer that must be one of this status."""
        assert self.status == status, self
        return checked_problem(self.status, self.headers, self.body)


async def ask(
    server: RunningServer,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    content_type: str | None = "application/json",
    client: aiohttp.ClientSession | None = None,
) -> Answer:
    """Send one request; the path goes out as it is spelled. A body is declared as `content_type`.

    The answer is held against the server's description of itself.
    """
    sent = CIMultiDict(headers or {})
    if body is not None and content_type is not None:
        sent["Content-Type"] = content_type
    async with (client or server.client).request(
        method,
        URL(server.url + path, encoded=True),
        data=body,
        headers=sent,
        skip_auto_headers=["Content-Type"],
        allow_redirects=False,
        timeout=_PATIENCE,
    ) as response:
        answer = Answer(response.status, response.headers, await response.read())
    description().check(method, path, answer.status, answer.headers, answer.body)
    return answer


async def answer_others(server: RunningServer) -> None:
    """Have the server answer and store requests of others: what is not held back is answered meanwhile."""
    for _ in range(5):
        await ask(server, "POST", "/session/new")
