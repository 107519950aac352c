"""The HTTP/2 client: its filter for GOAWAYs, and servers that break the protocol.

No public door reaches these orders of frames and of cancellations.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import h2.connection
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError
from hyperframe.frame import DataFrame, GoAwayFrame, PingFrame
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.push.providers.http2 import GoAway, GoAwayFilter, Http2Client, Http2Error, client_tls
from tests.support.credentials import throw_away_certificate
from tests.support.rows import each_row


def go_away(last_stream_id: int, code: int = 0, text: bytes = b"") -> bytes:
    return GoAwayFrame(0, last_stream_id=last_stream_id, error_code=code, additional_data=text).serialize()


PING = PingFrame(0, opaque_data=b"12345678").serialize()


@given(
    st.lists(
        st.one_of(
            st.builds(lambda data: DataFrame(1, data=data).serialize(), st.binary(max_size=40)),
            st.just(PING),
            st.builds(go_away, st.integers(0, 2**31 - 1), st.integers(0, 13), st.binary(max_size=20)),
        ),
        max_size=8,
    ),
    st.lists(st.integers(0, 400), max_size=6),
)
def test_goaways_are_taken_out_however_the_bytes_arrive(frames: list[bytes], cuts: list[int]) -> None:
    data = b"".join(frames)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    filtered = GoAwayFilter()

    parts = [part for a, b in pairwise(places) for part in filtered.feed(data[a:b])]

    goaways = [frame for frame in frames if frame[3] == GoAwayFrame.type]
    others = b"".join(frame for frame in frames if frame not in goaways)
    assert b"".join(part for part in parts if isinstance(part, bytes)) == others
    assert [part for part in parts if isinstance(part, GoAway)] == [
        GoAway(int.from_bytes(frame[9:13]), int.from_bytes(frame[13:17])) for frame in goaways
    ]


def test_other_frames_are_passed_on_and_a_truncated_goaway_is_an_error() -> None:
    assert GoAwayFilter().feed(PING + go_away(5, 2) + PING) == [PING, GoAway(5, 2), PING]
    too_large = b"\xff\xff\xff\x00\x00\x00\x00\x00\x01x"
    assert GoAwayFilter().feed(too_large) == [too_large], "it is kept until it is whole"
    with pytest.raises(ProtocolError, match="too short"):
        GoAwayFilter().feed(b"\x00\x00\x04\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01")


HEADERS = [(":method", "POST"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")]
Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter


@asynccontextmanager
async def client_of(
    serve: Callable[[Reader, Writer], Awaitable[None]], *, speaks_http2: bool = True
) -> AsyncIterator[Http2Client]:
    """A client of a server that does this with each connection."""

    async def serve_and_close(reader: Reader, writer: Writer) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.transport.abort()

    with TemporaryDirectory() as folder:
        certificate = throw_away_certificate(Path(folder))
        if speaks_http2:
            certificate.server.set_alpn_protocols(["h2"])
        server = await asyncio.start_server(serve_and_close, "127.0.0.1", 0, ssl=certificate.server)
        async with server:
            port = server.sockets[0].getsockname()[1]
            tls = client_tls(str(certificate.ca_file))
            async with Http2Client("127.0.0.1", port, tls, 60.0) as client:
                yield client


async def begin(writer: Writer) -> H2Connection:
    """The server's side of a new connection, its settings sent."""
    connection = H2Connection(H2Configuration(False, validate_outbound_headers=False))
    connection.initiate_connection()
    writer.write(connection.data_to_send())
    return connection


@pytest.mark.parametrize(
    ("speaks_http2", "words"),
    [(False, "the server does not speak HTTP/2"), (True, "the server closed the new connection")],
)
async def test_a_server_that_begins_no_connection_is_named_so(speaks_http2: bool, words: str) -> None:
    async def read_and_close(reader: Reader, _: Writer) -> None:
        await reader.read(65_536)

    async with client_of(read_and_close, speaks_http2=speaks_http2) as client:
        with pytest.raises(Http2Error, match=words):
            await client.request(HEADERS, b"")


@each_row("seed", range(20))
async def test_a_server_that_sends_noise_never_makes_a_request_wait_for_ever(seed: int) -> None:
    chance = random.Random(seed)

    async def serve(reader: Reader, writer: Writer) -> None:
        await begin(writer)
        await reader.read(65_536)
        for _ in range(20):
            size, kind, flags, stream = (chance.randrange(most) for most in (40, 12, 256, 4))
            writer.write(bytes([0, 0, size, kind, flags, 0, 0, 0, stream]) + chance.randbytes(size))
        await writer.drain()
        await reader.read(65_536)

    async with client_of(serve) as client:
        with pytest.raises(Http2Error):
            await client.request(HEADERS, b"body")


@pytest.mark.parametrize("closes", [True, False])
async def test_closing_ends_a_request_and_leaves_a_server_that_does_not_close(closes: bool) -> None:
    asked, may_end = asyncio.Event(), asyncio.Event()

    async def serve(reader: Reader, writer: Writer) -> None:
        if closes:
            asked.set()
            while await reader.read(65_536):
                pass
        else:
            await begin(writer)
            await reader.read(65_536)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            asked.set()
            await may_end.wait()

    async with client_of(serve) as client:
        request = asyncio.create_task(client.request(HEADERS, b""))
        await asked.wait()
        async with asyncio.timeout(60):
            await client.__aexit__(None, None, None)
        may_end.set()

        with pytest.raises(Http2Error, match="the client was closed"):
            await request


async def test_an_answer_without_a_status_is_named_so() -> None:
    async def serve(reader: Reader, writer: Writer) -> None:
        connection = await begin(writer)
        while data := await reader.read(65_536):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.StreamEnded):
                    connection.send_headers(event.stream_id, [(":status", "abc")], end_stream=True)
            writer.write(connection.data_to_send())

    async with client_of(serve) as client:
        with pytest.raises(Http2Error, match="the answer has no status"):
            await client.request(HEADERS, b"")
