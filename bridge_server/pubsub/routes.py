"""The paths at which clients of generations 1.x and 2.x connect."""

from bridge_server.kernel.token_bucket import Limit
from bridge_server.pubsub.handlers import PubSubHandlers
from bridge_server.web.routes import Route


def pubsub_routes(handlers: PubSubHandlers, every_request: Limit) -> tuple[Route, ...]:
    """The server's root, and a path for each generation. Dapps are web pages of any origin."""
    return tuple(
        Route(
            method="GET", path=path, name=name, handler=handler,
            limits=(every_request,), any_origin=True, forgives_slashes=path != "/", lan_handler=handler,
        )
        for path, name, handler in (
            ("/", "root", handlers.root),
            ("/compat/v1", "compat-v1", handlers.v1),
            ("/compat/v2", "compat-v2", handlers.v2),
        )
    )  # fmt: skip
