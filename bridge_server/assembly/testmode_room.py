"""The room of test mode, whose modules are loaded only in test mode."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.kernel.sweeper import Sweeper

_TEST_MODE = "bridge_server.assembly.testmode"


def test_mode(foundation: Foundation, rooms: Sequence[Room], sweeper: Sweeper) -> Any:
    """The controls of these rooms, as `TestMode`; None outside of test mode."""
    instruments = foundation.instruments
    if instruments is None:
        return None
    return import_module(_TEST_MODE).controls_of(foundation, instruments, rooms, sweeper)


def testmode_room(mode: Any) -> Room:
    """The control routes; outside of test mode there are none."""
    return Room(name="testmode", routes=() if mode is None else import_module(_TEST_MODE).routes_of(mode))
