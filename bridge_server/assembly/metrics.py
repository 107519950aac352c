"""`/metrics`: the figures of every room."""

import platform
from collections.abc import Iterator, Sequence
from contextlib import suppress

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.metrics_meanings import MEANINGS
from bridge_server.assembly.room import Room
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.secrets import ChangingToken
from bridge_server.storage.connection import SQLITE_VERSION
from bridge_server.version import VERSION
from bridge_server.web.families import Family
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
    async def families() -> Sequence[Family]:
        found = [_build(), *_plain(rooms)]
        for room in rooms:
            if room.families is not None:
                with suppress(UnavailableError):  # the other figures tell of a database that does not answer
                    found.extend(await room.families())
        return found

    handler = metrics_handler(foundation.figures, families)
    return Route(method="GET", path="/metrics", name="metrics", handler=handler, bearer=bearer)


def _plain(rooms: Sequence[Room]) -> Iterator[Family]:
    for room in rooms:
        for name, value in room.gauges().items():
            yield Family(name, MEANINGS[name], {(): value}, is_total=name in room.totals)


def _build() -> Family:
    versions = (VERSION, platform.python_version(), SQLITE_VERSION)
    return Family(
        "build_info",
        "The version of the server, of Python and of SQLite; the value is always 1.",
        {versions: 1},
        ("version", "python", "sqlite"),
    )
