"""The routes of the push server (docs/protocol.md, C)."""

from bridge_server.kernel.token_bucket import Limit
from bridge_server.push.handlers import PushHandlers
from bridge_server.web.routes import Handler, Route


def push_routes(
    handlers: PushHandlers, body_limit_bytes: int, every_request: Limit, new_clients: Limit
) -> tuple[Route, ...]:
    """Both endpoints of the push server. Any origin may call them, because wallets can be web pages."""

    def write(path: str, name: str, handler: Handler, who: str, *limits: Limit) -> Route:
        return Route(
            method="POST", path=path, name=name, handler=handler,
            body_limit_bytes=body_limit_bytes, limits=(every_request, *limits), any_origin=True, who=who,
        )  # fmt: skip

    return (
        write("/new", "register-push", handlers.register, "wallet", new_clients),
        write("/push", "push", handlers.push, "bridge"),
    )
