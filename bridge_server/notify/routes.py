"""The routes of the notification service with their rate limits (docs/protocol.md, A)."""

from bridge_server.kernel.token_bucket import MICROSECONDS, Limit
from bridge_server.notify.handlers import NotifyHandlers
from bridge_server.web.routes import Handler, Route

_PROJECT = "{project_id:[^/]{1,128}}"

NOTIFY = Limit("notify-calls", burst=20, interval_us=MICROSECONDS // 2)
DRY_RUN = Limit("notify-dry-runs", burst=20, interval_us=MICROSECONDS // 2)
LOOKUP = Limit("subscriber-lookups", burst=100, interval_us=MICROSECONDS // 100)
LISTING = Limit("subscriber-listings", burst=2, interval_us=300 * MICROSECONDS)
MARK_ALL = Limit("mark-all-as-read-calls", burst=5, interval_us=3_600 * MICROSECONDS)


def notify_routes(handlers: NotifyHandlers, body_limit_bytes: int) -> tuple[Route, ...]:
    """Every endpoint of the notification service. No web page may call them: the secret is a backend's."""

    def route(
        method: str, path: str, name: str, handler: Handler, limit: Limit, body_limit_bytes: int = 0,
        dry_run_limits: tuple[Limit, ...] = (),
    ) -> Route:  # fmt: skip
        return Route(
            method=method, path=path, name=name, handler=handler,
            identify=handlers.identify, caller_limits=(limit,), body_limit_bytes=body_limit_bytes,
            dry_run_limits=dry_run_limits, who="backend",
        )  # fmt: skip

    subscribers, mark_all = f"/v1/{_PROJECT}/subscribers", f"/v1/{_PROJECT}/mark-all-as-read"
    return (
        route("POST", f"/{_PROJECT}/notify", "notify", handlers.notify, NOTIFY, body_limit_bytes, (DRY_RUN,)),
        route("POST", subscribers, "subscriber-lookup", handlers.lookup, LOOKUP, body_limit_bytes),
        route("GET", f"/{_PROJECT}/subscribers", "subscriber-listing", handlers.listing, LISTING),
        route("POST", mark_all, "mark-all-as-read", handlers.mark_all_as_read, MARK_ALL),
    )
