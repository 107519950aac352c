"""The tour from its first scene to its last."""

from bridge_server.tour.clients import clients_scene
from bridge_server.tour.notifications import notifications_scene
from bridge_server.tour.push import push_scene
from bridge_server.tour.relay import relay_scene
from bridge_server.tour.servers import ADMIN_TOKEN, own_server
from bridge_server.tour.wallet import wallet_scene


async def visit(url: str, admin_token: str | None) -> None:
    """Play the scenes: the operator's only with an admin token, the wallet's only if the server has accounts.

    Raises TimeoutError if no webhook arrives, aiohttp.ClientError if a request fails.
    """
    await relay_scene(url)
    await clients_scene(url)
    await push_scene(url)
    if admin_token is not None:
        await notifications_scene(url, admin_token)
    await wallet_scene(url)


async def visit_own_server(*, with_node: bool) -> None:
    """Play every scene on a server that exists for the tour only. Raises what `visit` raises."""
    async with own_server(with_node=with_node) as url:
        await visit(url, ADMIN_TOKEN)
