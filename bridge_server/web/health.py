"""`GET /livez` and `GET /readyz`: is the process alive; can it do its work."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from bridge_server.kernel.errors import UnavailableError
from bridge_server.web.answers import text_answer
from bridge_server.web.routes import Route

_PATIENCE_SECONDS = 5.0


def health_routes(
    check_work: Callable[[], Awaitable[None]], troubles: Callable[[], Sequence[str]]
) -> tuple[Route, ...]:
    """The two routes; `check_work` raises UnavailableError when the server cannot do its work.

    `troubles` returns warnings for the operator: /readyz prints them, and its status stays 200.
    """

    async def live(_: web.Request) -> web.StreamResponse:
        return text_answer("alive\n")

    async def ready(_: web.Request) -> web.StreamResponse:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await check_work()
        except TimeoutError as error:
            raise UnavailableError("The database does not answer.") from error
        return text_answer("".join(["ready\n", *(f"but {trouble}\n" for trouble in troubles())]))

    return (
        Route(method="GET", path="/livez", name="livez", handler=live),
        Route(method="GET", path="/readyz", name="readyz", handler=ready),
    )
