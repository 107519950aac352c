"""The composition root: the rooms of the house become an aiohttp application.

`build_app` opens nothing. Rooms open when the application starts and close in reverse when it has stopped.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from aiohttp import web
from pydantic import SecretStr

from bridge_server.assembly import notifications, system_routes
from bridge_server.assembly.bridge import pubsub_room, pubsub_services, relay_room
from bridge_server.assembly.foundation import Foundation, lay_foundation, project_services, request_fault
from bridge_server.assembly.outbox import outbox_dispatcher, outbox_room, stock_of
from bridge_server.assembly.push import push_room, push_services
from bridge_server.assembly.room import DemoProject, Room, Running
from bridge_server.assembly.storage import commands_room, limits_room, save_quotas, storage_room, sweeper_of
from bridge_server.assembly.wallet import assembled_wallet, wallet_room
from bridge_server.kernel.background import Stopping, running
from bridge_server.kernel.clock import Clock
from bridge_server.settings.settings import NOWHERE, LiveSettings, Settings
from bridge_server.web import open_connections, problems, request_log, routes
from bridge_server.web.metrics import health_routes
from bridge_server.web.serving import Charging, Gateway, Watchers, build_application, not_found
from bridge_server.web.traffic import TrafficLog

# The list of all rooms. A new room has its folder, a file beside this one, its settings, and a line here.


def house(foundation: Foundation) -> tuple[Room, ...]:
    """Every room, in the order in which they open; they close in reverse. The database opens first: all
    others use it. Delivery opens before the rooms with endpoints and closes after them, because they queue
    messages until they are closed. Work that calls other rooms opens last.
    """
    documentation = system_routes.Documentation(foundation)
    projects = project_services(foundation)
    sending = notifications.notifications_of(foundation, projects)
    push = push_services(foundation)
    inbox = notifications.inbox_services(foundation, projects, push.addresses)
    wallet = assembled_wallet(foundation, foundation.backend.wallet_role())
    sockets = pubsub_services(foundation)
    pages = _console_pages(foundation)
    access_sweeps = () if pages is None else (pages.console_access(foundation).sweep,)
    serving = (
        relay_room(foundation),
        notifications.projects_room(projects),
        notifications.notify_room(foundation, projects, sending),
        push_room(foundation, push),
        wallet_room(foundation, wallet),
        notifications.inbox_room(foundation, inbox),
        pubsub_room(foundation, sockets, documentation.front),
        Room(name="console-access", sweeps=access_sweeps),
    )
    leases = foundation.backend.leases()
    dispatcher = outbox_dispatcher(foundation, serving, leases)
    stock = stock_of(foundation, dispatcher)
    outbox = outbox_room(foundation, serving, leases, dispatcher, stock)
    demo = notifications.demo_room(projects, sending, foundation.demo)
    processes = foundation.backend.processes_room(foundation.own_url, foundation.stopping)
    rooms = (storage_room(foundation), processes, limits_room(foundation), outbox, *serving, demo)
    readiness = system_routes.readiness_of(foundation, rooms)
    services = system_routes.Services(
        projects, sending, inbox.reading, wallet, push, sockets, dispatcher, stock, readiness
    )
    house = _with_operator(foundation, rooms, services)
    return (*house, *documentation.rooms(house))


def _with_operator(
    foundation: Foundation, rooms: Sequence[Room], services: system_routes.Services
) -> tuple[Room, ...]:
    """The rooms, and those that call them: the operator's, the console's, test mode's; loaded where on."""
    operator, pages = None, _console_pages(foundation)
    if foundation.observation is not None:
        admin = import_module("bridge_server.assembly.admin")
        operator = admin.Operator(foundation, foundation.observation, rooms, services)
    dispatcher, approvals = services.dispatcher, services.wallet.approvals
    sweeper = sweeper_of(foundation, rooms)
    observing = (
        Room(name="health", routes=health_routes(services.readiness)),
        system_routes.metrics_room(foundation, rooms),
        *(() if operator is None else (operator.watching_room(),)),
    )
    mode = None
    if foundation.instruments is not None:
        testmode = import_module("bridge_server.assembly.testmode")
        mode = testmode.controls_of(foundation, foundation.instruments, (*rooms, *observing), sweeper)
    return (
        *rooms,
        *(() if operator is None else (operator.room(),)),
        commands_room(foundation.backend.outside_changes(), dispatcher, approvals, foundation.events),
        Room(name="sweeping", running=(lambda: running(sweeper.run_forever()),)),
        *observing,
        *(() if mode is None else (mode.room,)),
        *(() if pages is None else (pages.pages_room(operator, mode),)),
    )


def _console_pages(foundation: Foundation) -> Any:
    """The module that makes the console's rooms: sign-in, and the pages. None while the console is off."""
    return import_module("bridge_server.assembly.console_pages") if foundation.settings.console else None


_Stopping: TypeAlias = Callable[[web.Application], Awaitable[None]]


class BuiltApp(NamedTuple):
    """The application, and another with the metrics alone, which an operator may put on its own port."""

    application: web.Application
    metrics: web.Application
    console: web.Application | None
    """The application of the console, if it has a port of its own."""
    live: LiveSettings
    lan_application: Callable[[str], web.Application]
    """Makes the application of a phones' listener, the bridge only, by the URL at which all else answers."""

    announce_url: Callable[[str], None]
    """Called with the URL on this machine once the server listens: other processes reach it there."""
    stopping: Stopping
    """Announces the end of the server at `/readyz`, and asks for it when it cannot do its work any more."""
    test_token: str | None = None
    """The bearer token of the control routes; None outside of test mode."""
    traffic: TrafficLog | None = None
    """The record of requests; None outside of test mode."""
    new_console_link: Callable[[int], Awaitable[str]] | None = None
    """Makes the token of a link that signs in to the console once, within so many milliseconds, if any."""


def build_app(
    settings: Settings,
    clock: Clock | None = None,
    demo: DemoProject | None = None,
    origins: Mapping[str, str] = NOWHERE,
) -> BuiltApp:
    """Put the server together. A test hands in its clock; `demo` is a project that is always there."""
    foundation = lay_foundation(settings, clock, demo, origins)
    rooms = house(foundation)
    gateway, stops = _gateway(foundation), _stops(foundation, rooms)

    def made(
        rows: Iterable[routes.Route], stops: Iterable[_Stopping] = (), otherwise: routes.Handler = not_found
    ) -> web.Application:
        application = build_application(tuple(rows), gateway, otherwise)
        application[open_connections.CONNECTIONS] = foundation.connections
        application.on_shutdown.extend(stops)
        return application

    def lan_application(url: str) -> web.Application:
        return made((row for room in rooms for row in room.lan_routes), stops, problems.elsewhere(url))

    own = [room for room in rooms if room.has_own_port]
    application = made((row for room in rooms if room not in own for row in room.routes), stops)
    application.cleanup_ctx.extend(_opening(each) for room in rooms for each in room.running)
    own_stops = [_calling(room.stop) for room in own if room.stop is not None]
    console = made((row for room in own for row in room.routes), own_stops) if own else None
    instruments, pages = foundation.instruments, _console_pages(foundation)
    metrics = made((system_routes.metrics_alone(foundation, rooms),))
    return BuiltApp(
        application, metrics, console, foundation.live, lan_application, foundation.own_url.announce,
        foundation.stopping,
        None if instruments is None else instruments.token,
        None if instruments is None else instruments.traffic,
        None if pages is None else pages.console_access(foundation).new_link,
    )  # fmt: skip


def _gateway(foundation: Foundation) -> Gateway:
    settings, instruments, observation = foundation.settings, foundation.instruments, foundation.observation
    reporting = request_log.Reporting(settings.slow_request_seconds, settings.max_wait, settings.access_log)

    def take(now: Settings) -> None:
        reporting.longest_wait_seconds = now.max_wait

    foundation.live.follow(take)
    watchers = Watchers(
        None if instruments is None else instruments.traffic,
        None if instruments is None else partial(request_fault, instruments),
        None if observation is None else observation.observer(foundation.addresses, foundation.clock),
    )
    charging = Charging(foundation.quotas, partial(save_quotas, foundation))
    lines = request_log.RequestLines(reporting, foundation.addresses, foundation.refusals)
    ids = problems.RequestIds(os.urandom)
    return Gateway(ids, foundation.connections, charging, foundation.figures, lines, watchers)


def _opening(opened: Running) -> Callable[[web.Application], AsyncIterator[None]]:
    async def hold(_: web.Application) -> AsyncIterator[None]:
        async with opened():
            yield

    return hold


def _stops(foundation: Foundation, rooms: Sequence[Room]) -> list[_Stopping]:
    """The steps that end work while requests are still being answered, in this order. Each answer becomes its
    connection's last, long polls are answered, the rooms end streams and sockets and begin no delivery,
    requests that wait for other servers have a little time left, bodies are received.
    """
    stops = [room.stop for room in rooms if room.stop is not None]
    calls = (foundation.connections.stop, foundation.signals.close, *stops, foundation.stopping.close)

    async def receive(_: web.Application) -> None:
        await foundation.connections.bodies_received()

    return [*map(_calling, calls), receive]


def _calling(stop: Callable[[], None]) -> _Stopping:
    async def call(_: web.Application) -> None:
        stop()

    return call


# Every route that a server can have, whatever the settings of this one are.

_TOKEN = SecretStr("0" * 40)
"""Routes exist with a token for them. No server that runs has this one."""


def every_route() -> tuple[routes.Route, ...]:
    """The rows of a server with everything turned on but the console. Nothing is opened or read."""
    settings = Settings(
        test=True, admin_token=_TOKEN, admin_wallet=True, metrics_token=_TOKEN, rpc_token=_TOKEN
    )
    return tuple(row for room in house(lay_foundation(settings)) for row in room.routes)


def whole_description() -> Mapping[str, Any]:
    """The OpenAPI document of that server."""
    return system_routes.described(every_route())
