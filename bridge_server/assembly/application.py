"""The composition root: the rooms of the house become an aiohttp application.

`build_app` opens nothing. Rooms open when the application starts and close in reverse when it has stopped.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from aiohttp import web

from bridge_server.assembly.demo import DemoProject
from bridge_server.assembly.foundation import Foundation, lay_foundation
from bridge_server.assembly.house import house
from bridge_server.assembly.instruments import request_fault
from bridge_server.assembly.limits import save_quotas
from bridge_server.assembly.metrics import metrics_alone
from bridge_server.assembly.observation import observer_of
from bridge_server.assembly.room import Room, Running
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.stopping import Stopping
from bridge_server.settings.live import NOWHERE, LiveSettings
from bridge_server.settings.settings import Settings
from bridge_server.web.connections import CONNECTIONS, Connections
from bridge_server.web.elsewhere import elsewhere
from bridge_server.web.request_id import RequestIds
from bridge_server.web.request_lines import Reporting
from bridge_server.web.routes import Handler, Route
from bridge_server.web.serving.application import build_application, not_found
from bridge_server.web.serving.gateway import Gateway
from bridge_server.web.traffic import TrafficLog

_Opening: TypeAlias = Callable[[web.Application], AsyncIterator[None]]
_Stopping: TypeAlias = Callable[[web.Application], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class BuiltApp:
    """The application, and another with the metrics alone, which an operator may put on its own port."""

    application: web.Application
    metrics: web.Application
    console: web.Application | None
    """The application of the console, if it has a port of its own."""
    live: LiveSettings
    lan_application: Callable[[str], web.Application]
    """Makes the application of a listener for phones, which has the bridge only, while `application` runs.

    It is given the URL at which everything else answers. When it stops, so does all work of the server.
    """
    announce_stop: Callable[[], None]
    """Has `/readyz` answer 503 from now on; everything else goes on."""
    announce_url: Callable[[str], None]
    """Called with the URL on this machine once the server listens: other processes reach it there."""
    stopping: Stopping
    """Asks for the end of the server, when it cannot do its work any more."""
    test_token: str | None = None
    """The bearer token of the control routes; None outside of test mode."""
    traffic: TrafficLog | None = None
    """The record of requests; None outside of test mode."""


def build_app(
    settings: Settings,
    clock: Clock | None = None,
    ids: IdMaker | None = None,
    demo: DemoProject | None = None,
    origins: Mapping[str, str] = NOWHERE,
) -> BuiltApp:
    """Put the server together. A test hands in its own clock and ids.

    `demo` is always there, if given; `origins` are the settings' sources.
    """
    foundation = lay_foundation(settings, clock, ids, demo, origins)
    rooms = house(foundation)
    gateway = _gateway(foundation)
    own = [room for room in rooms if room.has_own_port]
    rows = tuple(row for room in rooms if room not in own for row in room.routes)
    stops = _stops(foundation, rooms)
    application = _application(foundation, gateway, rows)
    application.cleanup_ctx.extend(_opening(running) for room in rooms for running in room.running)
    application.on_shutdown.extend(stops)
    metrics = _application(foundation, gateway, (metrics_alone(foundation, rooms),))
    instruments = foundation.instruments
    return BuiltApp(
        application,
        metrics,
        _console(foundation, gateway, own),
        foundation.live,
        partial(_lan_application, foundation, gateway, rows, stops),
        foundation.stopping.announce,
        foundation.own_url.announce,
        foundation.stopping,
        None if instruments is None else instruments.token,
        None if instruments is None else instruments.traffic,
    )


def _lan_application(
    foundation: Foundation,
    gateway: Gateway,
    rows: tuple[Route, ...],
    stops: Sequence[_Stopping],
    url: str,
) -> web.Application:
    on_lan = tuple(replace(row, handler=row.lan_handler) for row in rows if row.lan_handler is not None)
    application = _application(foundation, gateway, on_lan, elsewhere(url))
    application.on_shutdown.extend(stops)
    return application


def _gateway(foundation: Foundation) -> Gateway:
    settings, instruments = foundation.settings, foundation.instruments
    observation = foundation.observation
    reporting = Reporting(settings.slow_request_seconds, settings.max_wait, settings.access_log)

    def take(now: Settings) -> None:
        reporting.longest_wait_seconds = now.max_wait

    foundation.live.follow(take)
    return Gateway(
        RequestIds(os.urandom),
        foundation.connections,
        foundation.quotas,
        partial(save_quotas, foundation),
        foundation.figures,
        foundation.refusals,
        reporting,
        record=None if instruments is None else instruments.traffic,
        strike=None if instruments is None else partial(request_fault, instruments),
        observer=None
        if observation is None
        else observer_of(observation, foundation.addresses, foundation.clock),
    )


def _application(
    foundation: Foundation, gateway: Gateway, rows: tuple[Route, ...], otherwise: Handler = not_found
) -> web.Application:
    application = build_application(rows, gateway, otherwise)
    application[CONNECTIONS] = foundation.connections
    return application


def _console(foundation: Foundation, gateway: Gateway, rooms: Sequence[Room]) -> web.Application | None:
    rows = tuple(row for room in rooms for row in room.routes)
    if not rows:
        return None
    application = _application(foundation, gateway, rows)
    application.on_shutdown.extend(_calling(room.stop) for room in rooms if room.stop is not None)
    return application


def _opening(running: Running) -> _Opening:
    async def hold(_: web.Application) -> AsyncIterator[None]:
        async with running():
            yield

    return hold


def _stops(foundation: Foundation, rooms: Sequence[Room]) -> list[_Stopping]:
    """The steps that end work while requests are still being answered, in this order.

    First each answer becomes its connection's last, and long polls are answered; then the rooms end streams
    and sockets, and begin no delivery; then requests that wait for other servers have a little time left.
    Last the bodies that are being sent are received, so that nothing else waits for a slow client.
    """
    stops = [room.stop for room in rooms if room.stop is not None]
    calls = (foundation.connections.stop, foundation.signals.close, *stops, foundation.stopping.close)
    return [*map(_calling, calls), _receiving(foundation.connections)]


def _calling(stop: Callable[[], None]) -> _Stopping:
    async def call(_: web.Application) -> None:
        stop()

    return call


def _receiving(connections: Connections) -> _Stopping:
    async def receive(_: web.Application) -> None:
        await connections.bodies_received()

    return receive
