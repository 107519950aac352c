"""Streams in which nothing happens, and streams whose database does not keep up.

White-box: no reader sees when a stream has read the past, or that a database does not keep up.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from bridge_server.inbox.models import Arrival, Positions, Reader, SignedOut, StoredNotification
from bridge_server.inbox.store import Arrivals, InboxStore
from bridge_server.inbox.streams import Stream, Streams
from bridge_server.kernel.background import running
from bridge_server.kernel.errors import NotAuthenticatedError, UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Signals
from bridge_server.projects.caip10 import Account
from bridge_server.projects.models import ProjectId, TypeId
from bridge_server.web.answers import EventStream, Piece
from tests.support.clock import ManualClock, PassTime
from tests.support.rows import each_row
from tests.support.waiting import eventually, turns

ACCOUNT = 7
Flow: TypeAlias = asyncio.Task[None]


class Inbox(InboxStore):
    """A store with the inbox of one account, that can be made to fail."""

    def __init__(self) -> None:
        self.notifications: list[StoredNotification] = []
        self.failures: list[Exception] = []
        self.meanwhile: list[Callable[[], None]] = []

    async def newest(self, account: int) -> int:
        return len(self.notifications)

    async def page_after(self, account: int, after: int, limit: int) -> list[StoredNotification]:
        found = self.notifications[after : after + limit]
        await self._read()
        if self.meanwhile:
            self.meanwhile.pop()()
            await turns()  # others see to what has come
        return found

    async def arrivals(self, positions: Positions, limit: int) -> list[Arrival]:
        found = self.notifications[positions[ACCOUNT] :]
        await self._read()
        return [Arrival(notification, [ACCOUNT]) for notification in found[:limit]]

    async def _read(self) -> None:
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)


class Written(EventStream):
    """An event stream without a client, which keeps what it is given."""

    def __init__(self) -> None:
        self.text = ""

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        self.text += bytes(data).decode()

    def push(self, events: Piece) -> None:
        self.text += events.plain.decode()

    def hurry(self) -> None:
        pass

    @property
    def ids(self) -> list[int]:
        """The ids of the events."""
        return [int(line[4:]) for line in self.text.splitlines() if line.startswith("id: ")]


class Hub:
    """Streams over an inbox that the test fills."""

    def __init__(self, keep_alive_seconds: float = 3600.0) -> None:
        self.inbox, self.events, self.clock = Inbox(), Events(), ManualClock()
        self.arrivals = Arrivals(Signals())
        self.revoked: set[bytes] = set()
        self.streams = Streams(self.inbox, self.arrivals, self.confirm, self.events, self.clock, 3)
        self.streams.keep_alive_seconds = keep_alive_seconds

    async def confirm(self, reader: Reader) -> None:
        """The question whether a token is valid."""
        if reader.digest in self.revoked:
            raise NotAuthenticatedError("ended")

    def come(self, count: int = 1, *, announced: bool = True) -> None:
        """Something comes into the inbox."""
        for _ in range(count):
            number = len(self.inbox.notifications) + 1
            content = ("App", TypeId("news"), "Title", "Body", None, 0, None, None)
            self.inbox.notifications.append(StoredNotification(number, ProjectId("app"), *content))
        if announced:
            self.arrivals.arrived([ACCOUNT])

    async def join(self, last_event: int | None = None, digest: bytes = b"\x01") -> Stream:
        reader = Reader(ACCOUNT, Account("eip155:0x", "eip155:1:0x"), digest, 1_800_000_060_000)
        return await self.streams.join(reader, last_event)

    @asynccontextmanager
    async def flowing(self, last_event: int | None = None) -> AsyncIterator[tuple[Written, Flow]]:
        """A stream that is written to, and the task that writes."""
        async with running(self.streams.deliver_forever()), running(self.streams.keep_alive_forever()):
            stream, written = await self.join(last_event), Written()
            flow = asyncio.create_task(stream.flow(written))
            try:
                yield written, flow
            finally:
                flow.cancel()
                await asyncio.gather(flow, return_exceptions=True)
                stream.leave()


async def until_told(written: Written, *ids: int) -> None:
    await eventually(lambda: len(written.ids) >= len(ids))
    assert written.ids == list(ids)


async def until_live(hub: Hub) -> None:
    """Return once the streams have read the past."""
    await eventually(lambda: all(stream.is_live for stream in hub.streams._all()))


async def test_an_idle_stream_is_kept_alive_until_its_token_ends(pass_time: PassTime) -> None:
    hub = Hub(keep_alive_seconds=20)
    async with hub.flowing() as (written, flow):
        await turns()
        for _ in range(3):
            await pass_time(20)
        assert written.text == ":\n\n" * 3

        hub.clock.advance(59.999)
        await pass_time(20)
        assert not flow.done()
        hub.clock.advance(0.001)
        await pass_time(20)
        await flow


async def test_a_token_that_expires_while_the_past_is_read_ends_the_stream() -> None:
    hub = Hub()
    hub.come(3)
    hub.clock.advance(60)
    async with hub.flowing(0) as (written, flow):
        await asyncio.wait_for(flow, 60)
    assert written.ids == []


@each_row("error", [UnavailableError("The disk is full."), RuntimeError("a bug")])
async def test_notification_whose_read_fails_is_streamed_later(error: Exception) -> None:
    hub = Hub()
    async with hub.flowing() as (written, _):
        hub.come()
        await until_told(written, 1)
        hub.inbox.failures = [error, error]
        hub.come()
        hub.come()

        await until_told(written, 1, 2, 3)


async def test_history_whose_read_fails_is_streamed_later() -> None:
    hub = Hub()
    hub.come(2)
    hub.inbox.failures = [UnavailableError("The disk is full.")]
    async with hub.flowing(0) as (written, _):
        await until_told(written, 1, 2)


async def test_notification_during_the_read_of_the_history_is_not_lost() -> None:
    hub = Hub()
    hub.inbox.meanwhile = [hub.come, hub.come]
    async with hub.flowing() as (written, _):
        await until_told(written, 1, 2)


async def test_a_token_that_another_process_has_ended_ends_its_streams() -> None:
    hub = Hub()
    async with hub.flowing() as (_, flow):
        await until_live(hub)
        hub.events.hear(SignedOut("01"))
        await asyncio.wait_for(flow, 60)


async def test_after_a_gap_streams_get_what_came_and_end_with_tokens_that_were_ended() -> None:
    hub = Hub()
    async with hub.flowing() as (written, flow):
        await until_live(hub)
        other = await hub.join(digest=b"\x02")
        other_flow = asyncio.create_task(other.flow(Written()))
        hub.come(announced=False)
        hub.revoked.add(b"\x02")

        hub.events.hear_everything()

        await asyncio.wait_for(other_flow, 60)
        assert written.ids == [1]
        assert not flow.done()
