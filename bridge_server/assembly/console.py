"""The console, whose modules are loaded only when it is on."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.operator_desks import OperatorDesks
from bridge_server.assembly.operator_views import OperatorViews
from bridge_server.assembly.room import Room
from bridge_server.assembly.testmode import TestMode
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.wallet.node.node import Node
from bridge_server.web.health import Readiness


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    """What the pages show and change: the services of other rooms."""

    desks: OperatorDesks
    views: OperatorViews | None
    dispatcher: Dispatcher
    node: Node
    readiness: Readiness
    test_mode: TestMode | None


def console_access_room(foundation: Foundation) -> Room:
    """Deletes expired sign-ins."""
    if not foundation.settings.console:
        return Room(name="console-access")
    room: Room = _pages().access_room(foundation)
    return room


def console_room(foundation: Foundation, parts: ConsoleParts) -> Room:
    """The pages; there are none while the console is off."""
    if not foundation.settings.console:
        return Room(name="console")
    room: Room = _pages().pages_room(foundation, parts)
    return room


def _pages() -> Any:
    return import_module("bridge_server.assembly.console_pages")
