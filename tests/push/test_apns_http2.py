"""The HTTP/2 client against servers that do what no sane one does."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import h2.connection
import pytest
from h2.config import H2Configuration

from bridge_server.push.providers.http2 import Http2Client, Http2Error, client_tls
from tests.support.credentials import ThrowAwayCertificate, throw_away_certificate
from tests.support.eventually import turns
from tests.support.loop_time import PassTime
from tests.support.rows import each_row

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
