"""The HTTP/2 client: its queue for streams, its filter for GOAWAYs, and servers that break the protocol.

No public door reaches these orders of frames and of cancellations.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import h2.connection
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError
from hyperframe.frame import DataFrame, GoAwayFrame, PingFrame, SettingsFrame
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.push.providers.http2 import (
    GoAway,
    GoAwayFilter,
    Http2Client,
    Http2Error,
    StreamQueue,
    client_tls,
)
from tests.support.credentials import ThrowAwayCertificate, throw_away_certificate
from tests.support.eventually import turns
from tests.support.loop_time import PassTime
from tests.support.rows import each_row


async def waiting(queue: StreamQueue, count: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(queue.next()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def done(tasks: list[asyncio.Task[None]]) -> list[bool]:
    await turns()
    return [task.done() for task in tasks]


async def test_as_many_are_woken_as_there_are_places_and_in_order() -> None:
    queue = StreamQueue(lambda: 2)
    tasks = await waiting(queue, 3)

    queue.wake()

    assert await done(tasks) == [True, True, False]
    queue.wake()
    assert await done(tasks) == [True, True, True]


async def test_without_a_place_only_a_call_to_all_wakes_waiters() -> None:
    queue = StreamQueue(lambda: 0)
    tasks = await waiting(queue, 3)

    queue.wake()

    assert await done(tasks) == [False, False, False]
    queue.wake_all()
    assert await done(tasks) == [True, True, True]


async def test_waiter_cancelled_before_its_turn_is_passed_over() -> None:
    queue = StreamQueue(lambda: 1)
    tasks = await waiting(queue, 3)
    tasks[0].cancel()

    assert await done(tasks) == [True, True, False]
    queue.wake()
    assert await done(tasks) == [True, True, True]


async def test_waiter_cancelled_at_its_turn_passes_it_on() -> None:
    queue = StreamQueue(lambda: 1)
    tasks = await waiting(queue, 2)

    queue.wake()
    tasks[0].cancel()

    assert await done(tasks) == [True, True]
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]


def go_away(last_stream_id: int, code: int = 0, text: bytes = b"") -> bytes:
    return GoAwayFrame(0, last_stream_id=last_stream_id, error_code=code, additional_data=text).serialize()


FRAMES = st.one_of(
    st.builds(lambda data: DataFrame(1, data=data).serialize(), st.binary(max_size=40)),
    st.just(PingFrame(0, opaque_data=b"12345678").serialize()),
    st.builds(go_away, st.integers(0, 2**31 - 1), st.integers(0, 13), st.binary(max_size=20)),
)


@given(st.lists(FRAMES, max_size=8), st.lists(st.integers(0, 400), max_size=6))
def test_goaways_are_taken_out_however_the_bytes_arrive(frames: list[bytes], cuts: list[int]) -> None:
    data = b"".join(frames)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    filtered = GoAwayFilter()

    parts = [part for a, b in pairwise(places) for part in filtered.feed(data[a:b])]

    others = b"".join(frame for frame in frames if frame[3] != GoAwayFrame.type)
    assert b"".join(part for part in parts if isinstance(part, bytes)) == others
    assert [part for part in parts if isinstance(part, GoAway)] == [
        GoAway(int.from_bytes(frame[9:13]), int.from_bytes(frame[13:17]))
        for frame in frames
        if frame[3] == GoAwayFrame.type
    ]


def test_order_is_kept() -> None:
    ping = PingFrame(0, opaque_data=b"12345678").serialize()

    assert GoAwayFilter().feed(ping + go_away(5, 2) + ping) == [ping, GoAway(5, 2), ping]


def test_the_reserved_bit_is_no_part_of_the_stream() -> None:
    frame = bytearray(go_away(7))
    frame[9] |= 0x80

    assert GoAwayFilter().feed(bytes(frame)) == [GoAway(7, 0)]


def test_truncated_goaway_frame_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="too short"):
        GoAwayFilter().feed(b"\x00\x00\x04\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01")


def test_a_frame_that_is_too_large_is_passed_on_at_once_and_not_kept() -> None:
    start = b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + b"x" * 100

    assert GoAwayFilter().feed(start) == [start]


def test_h2_alone_still_refuses_what_comes_after_a_goaway() -> None:
    """Why there is a filter; when this fails, h2 has learnt it, and the filter can go."""
    connection = H2Connection()
    connection.initiate_connection()
    connection.receive_data(SettingsFrame(0).serialize() + go_away(1))

    with pytest.raises(ProtocolError):
        connection.receive_data(PingFrame(0, opaque_data=b"12345678").serialize())


HEADERS = [(":method", "POST"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def certificate(tmp_path: Path) -> ThrowAwayCertificate:
    return throw_away_certificate(tmp_path)


@asynccontextmanager
async def client_of(serve: Serve, certificate: ThrowAwayCertificate) -> AsyncIterator[Http2Client]:
    async def serve_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve_and_close, "127.0.0.1", 0, ssl=certificate.server)
    async with server:
        port = server.sockets[0].getsockname()[1]
        tls = client_tls(str(certificate.ca_file))
        async with Http2Client("127.0.0.1", port, tls, 2.0) as client:
            yield client


async def test_a_server_that_speaks_no_http2_is_named_so(certificate: ThrowAwayCertificate) -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(65_536)

    async with client_of(serve, certificate) as client:
        with pytest.raises(Http2Error, match="the server does not speak HTTP/2"):
            await client.request(HEADERS, b"")


async def test_a_server_that_closes_before_its_settings_is_named_so(
    certificate: ThrowAwayCertificate,
) -> None:
    certificate.server.set_alpn_protocols(["h2"])

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(65_536)

    async with client_of(serve, certificate) as client:
        with pytest.raises(Http2Error, match="the server closed the new connection"):
            await client.request(HEADERS, b"")


@each_row("seed", range(20))
async def test_a_server_that_sends_noise_never_makes_a_request_wait_for_ever(
    certificate: ThrowAwayCertificate, seed: int
) -> None:
    certificate.server.set_alpn_protocols(["h2"])
    chance = random.Random(seed)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h2.connection.H2Connection(H2Configuration(client_side=False))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        await reader.read(65_536)
        for _ in range(20):
            size = chance.randrange(40)
            header = bytes(
                [0, 0, size, chance.randrange(12), chance.randrange(256), 0, 0, 0, chance.randrange(4)]
            )
            writer.write(header + chance.randbytes(size))
        await writer.drain()
        await reader.read(65_536)

    async with client_of(serve, certificate) as client:
        with pytest.raises(Http2Error):
            await client.request(HEADERS, b"body")


async def test_closing_ends_an_attempt_to_connect(certificate: ThrowAwayCertificate) -> None:
    certificate.server.set_alpn_protocols(["h2"])
    has_come = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        has_come.set()
        while await reader.read(65_536):
            pass

    async with client_of(serve, certificate) as client:
        request = asyncio.create_task(client.request(HEADERS, b""))
        await has_come.wait()
        await client.__aexit__(None, None, None)

        with pytest.raises(Http2Error, match="the client was closed"):
            await request


async def test_a_server_that_does_not_close_is_left_after_a_second(certificate: ThrowAwayCertificate) -> None:
    certificate.server.set_alpn_protocols(["h2"])
    asked, may_end = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h2.connection.H2Connection(H2Configuration(client_side=False))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        await reader.read(65_536)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        asked.set()
        await may_end.wait()

    async with client_of(serve, certificate) as client:
        request = asyncio.create_task(client.request(HEADERS, b""))
        await asked.wait()
        async with asyncio.timeout(20):
            await client.__aexit__(None, None, None)
        may_end.set()

        with pytest.raises(Http2Error, match="the client was closed"):
            await request


async def test_an_answer_without_a_status_is_named_so(certificate: ThrowAwayCertificate) -> None:
    certificate.server.set_alpn_protocols(["h2"])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h2.connection.H2Connection(
            H2Configuration(client_side=False, validate_outbound_headers=False)
        )
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        while data := await reader.read(65_536):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.StreamEnded):
                    connection.send_headers(event.stream_id, [(":status", "abc")], end_stream=True)
            writer.write(connection.data_to_send())

    async with client_of(serve, certificate) as client:
        with pytest.raises(Http2Error, match="the answer has no status"):
            await client.request(HEADERS, b"")


async def test_a_server_that_allows_no_streams_at_all_is_waited_for_until_one_gives_up(
    certificate: ThrowAwayCertificate, pass_time: PassTime
) -> None:
    certificate.server.set_alpn_protocols(["h2"])
    has_settings = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h2.connection.H2Connection(H2Configuration(client_side=False))
        connection.local_settings = h2.settings.Settings(
            client=False, initial_values={h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 0}
        )
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        while data := await reader.read(65_536):
            if any(
                isinstance(each, h2.events.SettingsAcknowledged) for each in connection.receive_data(data)
            ):
                has_settings.set()

    async with client_of(serve, certificate) as client:
        request = asyncio.create_task(asyncio.wait_for(client.request(HEADERS, b""), 30))
        await has_settings.wait()
        await turns()
        assert not request.done()
        await pass_time(30)

        with pytest.raises(TimeoutError):
            await request
