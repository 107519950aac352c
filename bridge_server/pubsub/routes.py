"""Where the clients of generations 1.x and 2.x connect: at the URL that they were given."""

from bridge_server.kernel.token_bucket import Limit
from bridge_server.pubsub.handlers import PubSubHandlers
from bridge_server.web.routes import Route


def pubsub_routes(handlers: PubSubHandlers, every_request: Limit) -> tuple[Route, ...]:
    """The server's root, and each generation by its name. Dapps live in web pages of any origin."""
    return tuple(
        Route(
            method="GET", path=path, name=name, handler=handler,
            limits=(every_request,), any_origin=True, forgives_slashes=path != "/",
        )
        for path, name, handler in (
            ("/", "root", handlers.root),
            ("/compat/v1", "compat-v1", handlers.v1),
            ("/compat/v2", "compat-v2", handlers.v2),
        )
    )  # fmt: skip
