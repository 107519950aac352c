"""The rooms of an operator, whose modules are loaded only where an operator can look."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.projects import ProjectServices
from bridge_server.assembly.push import PushServices
from bridge_server.assembly.room import Room
from bridge_server.assembly.wallet import AssembledWallet
from bridge_server.inbox.reading import InboxReads
from bridge_server.notify.service import Notifications
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.web.health import Readiness


@dataclass(frozen=True, slots=True)
class Operated:
    """The services of other rooms through which an operator looks and acts."""

    projects: ProjectServices
    notifications: Notifications
    inbox: InboxReads
    wallet: AssembledWallet
    push: PushServices
    dispatcher: Dispatcher
    readiness: Readiness


@dataclass(frozen=True, slots=True)
class OperatorRooms:
    """The admin API in two rooms, and what makes the console of a `TestMode` or None."""

    admin: Room
    views: Room
    console: Callable[[Any], Room]


def operator_rooms(foundation: Foundation, rooms: Sequence[Room], operated: Operated) -> OperatorRooms:
    """The operator's rooms over these rooms; empty ones without `admin_token` and console."""
    if foundation.observation is None:
        return OperatorRooms(Room(name="admin"), Room(name="observation"), lambda _: Room(name="console"))
    loaded = import_module("bridge_server.assembly.observed_rooms")
    found: OperatorRooms = loaded.observed_rooms(foundation, foundation.observation, rooms, operated)
    return found
