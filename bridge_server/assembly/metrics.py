"""`/metrics`: the figures of every room."""

from collections.abc import Sequence

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.kernel.secrets import ChangingToken
from bridge_server.web.metrics import metrics_handler
from bridge_server.web.routes import Route


def metrics_room(foundation: Foundation, rooms: Sequence[Room]) -> Room:
    """The figures of these rooms, for the bearer of `metrics_token`; there is no endpoint without it."""
    token = foundation.live.token("metrics_token")
    if token is None:
        return Room(name="metrics")
    return Room(name="metrics", routes=(_route(foundation, rooms, token),))


def metrics_alone(foundation: Foundation, rooms: Sequence[Room]) -> Route:
    """The figures on a port of their own, which asks for the token where other machines can reach it."""
    is_guarded = foundation.settings.metrics_are_guarded
    return _route(foundation, rooms, foundation.live.token("metrics_token") if is_guarded else None)


def _route(foundation: Foundation, rooms: Sequence[Room], bearer: ChangingToken | None) -> Route:
    def gauges() -> dict[str, float]:
        return {
            f"{name}_total" if name in room.totals else name: value
            for room in rooms
            for name, value in room.gauges().items()
        }

    handler = metrics_handler(foundation.figures, gauges)
    return Route(method="GET", path="/metrics", name="metrics", handler=handler, bearer=bearer)
