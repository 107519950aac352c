"""The list of all rooms. A new room has its folder, a file beside this one, its settings, and a line here."""

from bridge_server.assembly.commands import commands_room
from bridge_server.assembly.console_room import console_access_room
from bridge_server.assembly.demo import demo_room
from bridge_server.assembly.description import description_rooms
from bridge_server.assembly.engine import leases_of, outside_changes, wallet_role_of
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.health import health_room, readiness_of
from bridge_server.assembly.inbox import inbox_room, inbox_services
from bridge_server.assembly.limits import limits_room
from bridge_server.assembly.metrics import metrics_room
from bridge_server.assembly.notify import notifications_of, notify_room
from bridge_server.assembly.operator_rooms import Operated, operator_rooms
from bridge_server.assembly.outbox import outbox_dispatcher, outbox_room
from bridge_server.assembly.processes import processes_room
from bridge_server.assembly.projects import project_services, projects_room
from bridge_server.assembly.pubsub import pubsub_room
from bridge_server.assembly.push import push_room, push_services
from bridge_server.assembly.relay import relay_room
from bridge_server.assembly.room import Room
from bridge_server.assembly.storage import storage_room
from bridge_server.assembly.sweeping import sweeper_of, sweeping_room
from bridge_server.assembly.testmode_room import test_mode, testmode_room
from bridge_server.assembly.wallet import assembled_wallet, wallet_room


def house(foundation: Foundation) -> tuple[Room, ...]:
    """Every room, in the order in which they open; they close in reverse.

    The database opens first: all others use it. Delivery opens before the rooms with endpoints and closes
    after them, because they queue messages until they are closed. Work that calls other rooms opens last.
    """
    projects = project_services(foundation)
    notifications = notifications_of(foundation, projects)
    push = push_services(foundation)
    inbox = inbox_services(foundation, projects, push.addresses)
    wallet = assembled_wallet(foundation, wallet_role_of(foundation.settings, foundation.database))
    serving = (
        relay_room(foundation),
        projects_room(projects),
        notify_room(foundation, projects, notifications),
        push_room(foundation, push),
        wallet_room(foundation, wallet),
        inbox_room(foundation, inbox),
        pubsub_room(foundation),
        console_access_room(foundation),
    )
    leases = leases_of(foundation.settings, foundation.database)
    dispatcher = outbox_dispatcher(foundation, serving, leases)
    outbox = outbox_room(foundation, serving, leases, dispatcher)
    demo = demo_room(projects.projects, foundation.demo)
    rooms = (
        storage_room(foundation),
        processes_room(foundation),
        limits_room(foundation),
        outbox,
        *serving,
        demo,
    )
    readiness = readiness_of(foundation, rooms)
    operated = Operated(projects, notifications, inbox.reading, wallet, push, dispatcher, readiness)
    operator = operator_rooms(foundation, rooms, operated)
    sweeper = sweeper_of(foundation, rooms)
    observing = (health_room(readiness), metrics_room(foundation, rooms), operator.views)
    mode = test_mode(foundation, (*rooms, *observing), sweeper)
    house = (
        *rooms,
        operator.admin,
        commands_room(outside_changes(foundation.database), dispatcher, wallet.approvals, foundation.events),
        sweeping_room(sweeper),
        *observing,
        testmode_room(mode),
        operator.console(mode),
    )
    return (*house, *description_rooms(foundation, house))
