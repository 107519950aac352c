"""`GET /livez` and `GET /readyz`: whether the process is alive, and whether it can do its work."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from bridge_server.kernel.errors import UnavailableError
from bridge_server.web.answers import text_answer
from bridge_server.web.routes import Route

_PATIENCE_SECONDS = 5.0


class Readiness:
    """Whether the server can do its work, and what troubles it.

    `check_work` raises UnavailableError when it cannot. `troubles` returns the faults that last until an
    operator mends them.
    """

    def __init__(
        self, check_work: Callable[[], Awaitable[None]], troubles: Callable[[], Sequence[str]]
    ) -> None:
        self._check_work = check_work
        self.troubles = troubles

    async def check(self) -> None:
        """Raise UnavailableError when the server cannot do its work, or does not find out in time."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._check_work()
        except TimeoutError as error:
            raise UnavailableError("The database does not answer.") from error


def health_routes(readiness: Readiness) -> tuple[Route, ...]:
    """The two routes. /readyz prints the troubles, and its status stays 200."""

    async def live(_: web.Request) -> web.StreamResponse:
        return text_answer("alive\n")

    async def ready(_: web.Request) -> web.StreamResponse:
        await readiness.check()
        return text_answer("".join(["ready\n", *(f"but {each}\n" for each in readiness.troubles())]))

    return (
        Route(method="GET", path="/livez", name="livez", handler=live),
        Route(method="GET", path="/readyz", name="readyz", handler=ready),
    )
