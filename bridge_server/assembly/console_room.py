"""The console, whose modules are loaded only when it is on."""

from importlib import import_module
from typing import Any

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room


def console_access_room(foundation: Foundation) -> Room:
    """Deletes expired sign-ins."""
    if not foundation.settings.console:
        return Room(name="console-access")
    room: Room = _pages().access_room(foundation)
    return room


def console_room(foundation: Foundation, parts: Any) -> Room:
    """The pages over `ConsoleParts`; there are none while the console is off."""
    if not foundation.settings.console:
        return Room(name="console")
    room: Room = _pages().pages_room(foundation, parts)
    return room


def _pages() -> Any:
    return import_module("bridge_server.assembly.console_pages")
