"""The admin API and the console over one set of services."""

from collections.abc import Sequence

from bridge_server.assembly.admin import admin_room
from bridge_server.assembly.console import ConsoleParts
from bridge_server.assembly.console_room import console_room
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.observation import Observation
from bridge_server.assembly.operator_desks import operator_desks
from bridge_server.assembly.operator_rooms import Operated, OperatorRooms
from bridge_server.assembly.operator_views import operator_views, views_room
from bridge_server.assembly.room import Room
from bridge_server.assembly.testmode import TestMode


def observed_rooms(
    foundation: Foundation, observation: Observation, rooms: Sequence[Room], operated: Operated
) -> OperatorRooms:
    """The rooms of an operator who sees what is observed."""
    desks = operator_desks(foundation, observation, operated)
    views = operator_views(foundation, observation, rooms, operated.push)

    def console(mode: TestMode | None) -> Room:
        return console_room(foundation, ConsoleParts(desks, views, operated, mode))

    return OperatorRooms(admin_room(foundation, desks), views_room(foundation, views), console)
