"""The paths at which clients of generation 1.x connect: the path of the bridge's URL that they were given."""

from bridge_server.kernel.token_bucket import Limit
from bridge_server.pubsub.handlers import PubSubHandlers
from bridge_server.web.routes import Route


def pubsub_routes(handlers: PubSubHandlers, every_request: Limit) -> tuple[Route, ...]:
    """The server's root, and a path of its own with equal answers. Dapps are web pages of any origin."""
    return tuple(
        Route(
            method="GET", path=path, name=name, handler=handlers.root,
            limits=(every_request,), any_origin=True, forgives_slashes=path != "/",
        )
        for path, name in (("/", "root"), ("/compat/v1", "compat-v1"))
    )  # fmt: skip
