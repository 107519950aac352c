"""The control routes of `serve --test`."""

from collections.abc import Sequence

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.kernel.secrets import ChangingToken
from bridge_server.kernel.sweeper import Sweeper
from bridge_server.kernel.values import dataclass
from bridge_server.push.providers.sinks import SINK_ANSWERS
from bridge_server.storage.connection import ORDERED_FAILURES
from bridge_server.testmode.instruments import Instruments, Where
from bridge_server.testmode.routes import TestModeHandlers, testmode_routes
from bridge_server.testmode.service import Controls, EveryTable
from bridge_server.testmode.wire import Routes, Words
from bridge_server.web.addresses import Hosts
from bridge_server.web.routes import Access

_WORDS: Words = {Where.NODE: None, **{Where(channel): words for channel, words in SINK_ANSWERS.items()}}
_WORDS_OF_A_FILE: Words = {**_WORDS, Where.DISK: frozenset(ORDERED_FAILURES)}
"""PostgreSQL's disk is another machine's, so that no test breaks it here."""


@dataclass(frozen=True, slots=True)
class TestMode:
    """The controls of tests, and the names that rules for faults may have."""

    __test__ = False

    instruments: Instruments
    controls: Controls
    routes: Routes
    words: Words
    room: Room
    """The control routes."""


def controls_of(
    foundation: Foundation, instruments: Instruments, rooms: Sequence[Room], sweeper: Sweeper
) -> TestMode:
    """The controls of these rooms."""
    emptied = [each for room in rooms for each in room.emptied]
    catch_up = [room.catch_up for room in rooms if room.catch_up is not None]
    tables, signals = EveryTable(foundation.database), foundation.signals
    controls = Controls(instruments, tables, signals, emptied, sweeper, catch_up)
    names = {row.name: row.request for room in rooms for row in room.routes}
    words = _WORDS if foundation.database_file is None else _WORDS_OF_A_FILE
    handlers = TestModeHandlers(controls, instruments, names, words)
    guard = Hosts().guard("The control routes do not answer to", "reach them as localhost or 127.0.0.1.")
    routes = testmode_routes(handlers, Access(guard=guard, bearer=ChangingToken(instruments.token)))
    return TestMode(instruments, controls, names, words, Room(name="testmode", routes=routes))
