"""The wallet's one endpoint as a row."""

from collections.abc import Callable

from aiohttp import web

from bridge_server.wallet.handlers import WalletHandlers
from bridge_server.web.routes import Route


def wallet_routes(
    handlers: WalletHandlers,
    body_limit_bytes: int,
    guard: Callable[[web.Request], None],
    bearer: Callable[[str], bool] | None,
    origins: frozenset[str],
) -> tuple[Route, ...]:
    """`POST /rpc`, for whom the guard and the bearer token let in. Web pages of these origins may call it."""
    return (
        Route(
            method="POST", path="/rpc", name="rpc", handler=handlers.rpc, waits=True,
            body_limit_bytes=body_limit_bytes, guard=guard, bearer=bearer, origins=origins,
        ),
    )  # fmt: skip
