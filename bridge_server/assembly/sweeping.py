"""The sweeper, which deletes expired rows in every room."""

from collections.abc import Sequence

from bridge_server.assembly.engine import sweeper_hold
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.kernel.background import running
from bridge_server.kernel.sweeper import Sweeper


def sweeper_of(foundation: Foundation, rooms: Sequence[Room]) -> Sweeper:
    """The sweeps of these rooms, one after the other. A clock that tests move may jump."""
    sweeps = tuple(sweep for room in rooms for sweep in room.sweeps)
    settings = foundation.settings
    return Sweeper(
        sweeps,
        foundation.clock,
        settings.sweep_interval,
        minds_jumps=not settings.test,
        hold=sweeper_hold(foundation.database),
    )


def sweeping_room(sweeper: Sweeper) -> Room:
    """The sweeper's work in the background."""
    return Room(name="sweeping", running=(lambda: running(sweeper.run_forever()),))
