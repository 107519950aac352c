"""Listens for the commits of other processes, and notices when it may have missed some."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import structlog

from bridge_server.kernel.background import running
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.kernel.events import Events, EventTexts, UnreadableEventError
from bridge_server.storage.postgres import announcing
from bridge_server.storage.postgres.failures import WIRE_FAILURES, passing_failure, unavailable
from bridge_server.storage.postgres.statements import NOW_MS

ENDED_AFTER_SECONDS = 8.0
"""How long the session that listens may be silent, by the clock of the database."""
_LOCKS_KEPT_US = int((ENDED_AFTER_SECONDS - 1) * 1_000_000)
_CHECK_SECONDS = 1.0
_DEAF_CHECK_SECONDS = 0.25
_ECHO_SECONDS = 2.0
_EVERYTHING_SECONDS = 1.0
_EXCHANGE_SECONDS = 2.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
_TROUBLED_AFTER_SECONDS = 3.0

_AGO_MS = f"{NOW_MS} - seen_at_ms"
_CHECK = f"""
SELECT number, lane, written, {_AGO_MS} < 30000,
    seen_at_ms > 0 AND {_AGO_MS} > {int(ENDED_AFTER_SECONDS * 1_000)} FROM processes
"""  # noqa: S608 - its own parts
_LISTENER_SUFFIX = " listener"
# Only sessions of the own user can be seen and ended. Behind a pooler of transactions the server's session
# has the name of the process only while that is in a transaction.
_END_SILENT = f"""
WITH sessions AS MATERIALIZED (
    SELECT pid, application_name AS name, state FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
        AND application_name LIKE 'bridge-server/%'
        AND state_change < clock_timestamp() - make_interval(secs => $1)
), silent AS (
    SELECT pid, name FROM sessions WHERE state = 'idle' AND name LIKE '%{_LISTENER_SUFFIX}'
)
SELECT name, pg_terminate_backend(pid) FROM silent UNION ALL
SELECT sessions.name, pg_terminate_backend(sessions.pid) FROM sessions
JOIN silent ON silent.name = sessions.name || '{_LISTENER_SUFFIX}'
WHERE sessions.state IN ('idle in transaction', 'idle in transaction (aborted)')
"""  # noqa: S608 - its own parts

log = structlog.get_logger()

CheckListener: TypeAlias = Callable[[Any], Awaitable[None]]
"""Called with the connection of asyncpg at each check. Work that takes long ends the connection."""
WritingLane: TypeAlias = tuple[int, int]
"""The number of a process, and one of its lanes."""


class Listener:
    """A process listens here (LISTEN) for the events that other processes commit. Each event, or everything
    after a gap, goes to the listeners of this process: milliseconds after the commit. Where a notification
    was lost, the event is found when the table of processes, read every second, is read the second time.
    """

    def __init__(
        self,
        process: int,
        texts: EventTexts,
        events: Events,
        announcer: announcing.Announcer,
        connect: announcing.Open,
        check_seconds: float = _CHECK_SECONDS,
    ) -> None:
        self._process = process
        self._texts = texts
        self._events = events
        self._announcer = announcer
        self._connect = connect
        self._check_seconds = check_seconds
        self._clock: Clock = SystemClock()
        self._asked_us = 0
        self._counts = CommitCounts()
        self._awake = asyncio.Event()
        self._wire: Any = None
        self._exchanging = asyncio.Lock()
        self._everything = AtMostOnce(events.hear_everything, _EVERYTHING_SECONDS)
        self._echo = Echo(announcer)
        self._silent_since: float | None = None
        self._has_silent_neighbour = False
        self._on_check: list[CheckListener] = []
        self._on_lost: list[Callable[[], None]] = []

    def use(self, on_check: CheckListener, on_lost: Callable[[], None]) -> None:
        """Call `on_check` with the connection at each check, and `on_lost` as soon as the connection ends."""
        self._on_check.append(on_check)
        self._on_lost.append(on_lost)
        self.check_now()

    def check_now(self) -> None:
        """Read at once, and not only when it is time."""
        self._awake.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Listen while inside. Raises what asyncpg raises and OSError when the first attempt fails."""
        wire = await self._began()
        try:
            async with running(self._listen_forever(wire)):
                yield
        finally:
            self._everything.cancel()

    @property
    def wire(self) -> Any:
        """The connection that listens, whose session has locks; None without one."""
        return self._wire

    @property
    def has_session(self) -> bool:
        """Whether the connection is known to have a session of its own, which keeps what it locks."""
        return self._echo.has_come

    @property
    def keeps_locks(self) -> bool:
        """Whether the session is open, and was used a moment ago, so that no other process has ended it."""
        wire = self._wire
        if wire is None or wire.is_closed():
            return False
        return self._clock.elapsed_us() - self._asked_us < _LOCKS_KEPT_US

    async def ask(self, statement: str, *arguments: object) -> Any:
        """The one value of a statement on the connection that listens. Raises UnavailableError."""
        wire = self._wire
        if wire is None or wire.is_closed():
            raise unavailable("there is no connection to the database that hears other processes")
        try:
            async with asyncio.timeout(_EXCHANGE_SECONDS), self._exchanging:
                return await wire.fetchval(statement, *arguments)
        except WIRE_FAILURES as error:
            raise unavailable(passing_failure(error) or str(error)) from error

    @property
    def other_processes(self) -> int:
        """The number of other processes at the last check."""
        return max(0, self._announcer.live_processes - 1)

    @property
    def is_deaf(self) -> bool:
        """Whether LISTEN has no effect, so that commits of others show only in the table."""
        return self._echo.is_missing

    @property
    def troubles(self) -> Sequence[str]:
        """The reason why this process cannot hear others, for people to read; none as a rule."""
        since = self._silent_since
        if since is not None and asyncio.get_running_loop().time() - since >= _TROUBLED_AFTER_SECONDS:
            return ["no connection to the database that hears other processes"]
        if self.is_deaf:
            return [
                "LISTEN has no effect, and no lock holds, as behind a pooler of transactions: name the "
                "database server itself in `database_direct`; until then this process takes no wallet"
            ]
        return []

    async def _listen_forever(self, wire: Any) -> None:
        while True:
            self._wire = wire
            try:
                await self._check_until_it_ends(wire)
            except Exception as error:  # whatever it is, another connection may hear
                log.warning("ear_lost", reason=str(error) or type(error).__name__)
            finally:
                self._wire = None
                wire.terminate()
                for lost in self._on_lost:
                    lost()
            self._silent_since = asyncio.get_running_loop().time()
            wire = await self._began_again()

    async def _began_again(self) -> Any:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            with suppress(Exception):  # as above
                return await self._began()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _began(self) -> Any:
        """A connection that listens. The counts are read after that, and before everything is heard."""
        asked_us = self._clock.elapsed_us()
        wire = await self._connect()
        try:
            async with asyncio.timeout(_EXCHANGE_SECONDS):
                self._awake.clear()
                wire.add_termination_listener(lambda _: self._awake.set())
                await wire.add_listener(announcing.CHANNEL, self._on_notification)
                self._counts.begin(await self._written(wire))
        except BaseException:
            wire.terminate()
            raise
        self._silent_since, self._asked_us = None, asked_us
        if self._on_check:
            self.check_now()
        self._everything.call()
        self._echo.ask()
        return wire

    async def _check_until_it_ends(self, wire: Any) -> None:
        while not wire.is_closed():
            usual = self._check_seconds
            with suppress(TimeoutError):
                async with asyncio.timeout(min(usual, _DEAF_CHECK_SECONDS) if self.is_deaf else usual):
                    await self._awake.wait()
            self._awake.clear()
            async with asyncio.timeout(_EXCHANGE_SECONDS), self._exchanging:
                written = await self._check(wire)
            if not self._counts.compare(written):
                log.info("rings_missed")
                self._everything.call()
            self._echo.examine()

    async def _check(self, wire: Any) -> dict[WritingLane, int]:
        asked_us = self._clock.elapsed_us()
        for check in self._on_check:
            await check(wire)
        written = await self._written(wire)
        if self._has_silent_neighbour and await end_silent_sessions(wire):
            self.check_now()  # their locks can be had
        self._asked_us = asked_us
        return written

    async def _written(self, wire: Any) -> dict[WritingLane, int]:
        rows = await wire.fetch(_CHECK)
        self._announcer.live_processes = len({number for number, _, _, is_alive, _ in rows if is_alive})
        others = [row for row in rows if row[0] != self._process]
        self._has_silent_neighbour = any(is_silent for *_, is_silent in others)
        return {(number, lane): written for number, lane, written, *_ in others}

    def _on_notification(self, _wire: Any, _pid: int, _channel: str, payload: str) -> None:
        try:
            announcement = announcing.read_announcement(payload)
        except announcing.UnreadableAnnouncementError:
            self._everything.call()
            return
        if announcement.process == self._process:
            if self._echo.came() and self._on_check:
                self.check_now()
            return
        place = (announcement.process, announcement.lane)
        is_complete = self._counts.announced(place, announcement.since, announcement.until)
        if not self._hear(announcement) or not is_complete:
            self._everything.call()

    def _hear(self, announcement: announcing.Announcement) -> bool:
        """Publish the events. Returns False when there are more than these, or others."""
        is_whole = True
        for array in announcement.events:
            if array == announcing.ANYTHING:
                is_whole = False
                continue
            try:
                event = self._texts.read(array)
            except (UnreadableEventError, TypeError, ValueError):
                is_whole = False
                continue
            if event is not None:
                self._events.hear(event)
        return is_whole


class CommitCounts:
    """The counts of commits up to which the events of every lane of other processes have been heard. A commit
    raises its lane's count in the table `processes`, and an announcement says from which count to which it
    brings the events. So no event is missed without a trace: either the next announcement begins above what
    is known here, or the table has more than is known.
    """

    def __init__(self) -> None:
        self._heard: dict[WritingLane, int] = {}
        self._before: Mapping[WritingLane, int] = {}

    def begin(self, written: Mapping[WritingLane, int]) -> None:
        """Begin with these counts. The caller treats everything as changed, whatever was heard before."""
        self._heard = dict(written)
        self._before = {}

    def announced(self, place: WritingLane, since: int, until: int) -> bool:
        """Note that the events of the commits above `since` have come, up to `until`. Returns False if
        earlier ones are missing. A late or repeated announcement is no gap.
        """
        heard = self._heard.get(place, 0)
        self._heard[place] = max(heard, until)
        return since <= heard

    def compare(self, written: Mapping[WritingLane, int]) -> bool:
        """Compare with the counts of the table. Returns False if a commit that the last check found is still
        not announced: the caller then treats everything as changed.
        """
        behind = [place for place, count in self._before.items() if self._heard.get(place, 0) < count]
        for place in behind:
            self._heard[place] = max(self._heard.get(place, 0), written.get(place, 0), self._before[place])
        for place in self._before.keys() - written.keys():
            self._heard.pop(place, None)
        self._before = written
        return not behind


class Echo:
    """The notification that a process sends itself, to find out whether a pooler has forgotten LISTEN."""

    def __init__(self, announcer: announcing.Announcer) -> None:
        self._announcer = announcer
        self._sent_before = 0
        self._asked_at = 0.0
        self.has_come = False
        """Whether the announcement was heard since the connection listens."""
        self.is_missing = False
        """Whether the last announcement that was asked for was not heard in time."""

    def ask(self) -> None:
        """Have the announcer send one: a connection begins to listen."""
        self.has_come = False
        self._sent_before = self._announcer.sent
        self._asked_at = asyncio.get_running_loop().time()
        self._announcer.prove()

    def came(self) -> bool:
        """Note that it was heard. Returns whether it is the first since the connection listens."""
        is_news = not self.has_come
        self.has_come, self.is_missing = True, False
        return is_news

    def examine(self) -> None:
        """Ask for another announcement if the last one should have been heard by now."""
        if self.has_come or self._announcer.sent == self._sent_before:
            return
        if asyncio.get_running_loop().time() - self._asked_at < _ECHO_SECONDS:
            return
        if not self.is_missing:
            log.warning("ear_deaf", advice="set database_direct to the address of the database server itself")
        self.is_missing = True
        self.ask()


class AtMostOnce:
    """Calls a function at once; after another call in the same `seconds`, at their end."""

    def __init__(self, function: Callable[[], None], seconds: float) -> None:
        self._function = function
        self._seconds = seconds
        self._rests_until = 0.0
        self._later: asyncio.TimerHandle | None = None

    def call(self) -> None:
        """Have the function called, soon at the latest."""
        if self._later is not None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= self._rests_until:
            self._run()
        else:
            self._later = loop.call_at(self._rests_until, self._run)

    def cancel(self) -> None:
        """Do not call the function any more, for what came until now."""
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _run(self) -> None:
        self._later = None
        self._rests_until = asyncio.get_running_loop().time() + self._seconds
        self._function()


# A process that runs asks something on its listening connection each second. The session of one that was
# frozen, or whose machine is gone, lives on without that, and so do its advisory locks and the transactions
# that it has begun. The next process to check ends them.


def name_of_listener(name: str) -> str:
    """The name of a session that listens and has locks, of the process whose sessions have the other name."""
    return f"{name}{_LISTENER_SUFFIX}"


async def end_silent_sessions(wire: Any, after_seconds: float = ENDED_AFTER_SECONDS) -> bool:
    """Whether there was a session to end, for which `wire`, a connection of asyncpg, has asked the server."""
    ended = await wire.fetch(_END_SILENT, after_seconds)
    for name, _ in ended:
        log.warning("silent_session_ended", session=name)
    return bool(ended)
