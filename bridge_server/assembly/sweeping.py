"""The sweeper, which deletes what has expired in every room."""

from collections.abc import Sequence

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.kernel.background import running
from bridge_server.kernel.sweeper import Sweeper


def sweeping_room(foundation: Foundation, rooms: Sequence[Room]) -> Room:
    """The sweeps of these rooms, one after the other."""
    sweeps = tuple(sweep for room in rooms for sweep in room.sweeps)
    sweeper = Sweeper(sweeps, foundation.clock, foundation.settings.sweep_interval)
    return Room(name="sweeping", running=(lambda: running(sweeper.run_forever()),))
