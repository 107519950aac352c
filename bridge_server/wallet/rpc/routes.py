"""The wallet's endpoints as rows."""

from collections.abc import Callable

from aiohttp import web

from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.token_bucket import Limit
from bridge_server.wallet.rpc.discovery import written_openrpc
from bridge_server.wallet.rpc.forwarding import MovingWalletHandlers
from bridge_server.wallet.rpc.handlers import WalletHandlers
from bridge_server.web.allowed_origins import AllowedOrigins
from bridge_server.web.document import DocumentPage
from bridge_server.web.json_rpc import gist
from bridge_server.web.routes import Route


def wallet_routes(
    handlers: WalletHandlers | MovingWalletHandlers,
    body_limit_bytes: int,
    guard: Callable[[web.Request], None],
    bearer: Callable[[str], bool] | None,
    origins: AllowedOrigins,
    on_refusal: Callable[[web.Request, BridgeError], None],
) -> tuple[Route, ...]:
    """`POST /rpc`, behind the guard and the bearer token. Web pages of these origins may call it.

    `on_refusal` gets each request that is turned away.
    """
    return (
        Route(
            method="POST", path="/rpc", name="rpc", handler=handlers.rpc, waits=True,
            body_limit_bytes=body_limit_bytes, guard=guard, bearer=bearer, on_refusal=on_refusal,
            origins=origins, who="rpc", gist=gist,
        ),
    )  # fmt: skip


def description_routes(every_request: Limit) -> tuple[Route, ...]:
    """`GET /openrpc.json`, for everyone: it says what the wallet can do, and nothing of its accounts."""
    document = DocumentPage(written_openrpc)
    return (
        Route(
            method="GET", path="/openrpc.json", name="openrpc", handler=document.answer,
            limits=(every_request,), any_origin=True,
        ),
    )  # fmt: skip
