"""The moment at which a text frame is processed, and what becomes of the frames behind it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import aiohttp
import pytest
from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.test_utils import TestServer

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.web.sockets import Socket, text_frame

_PATIENCE_SECONDS = 60.0


class Party:
    """Answers each frame with itself, `later` when it may go on, and `refused` and `broken` with an error."""

    def __init__(self) -> None:
        self.outlet: Socket | None = None
        self.heard_by: list[asyncio.Task[None] | None] = []
        self.may_go_on = asyncio.Event()
        self.has_begun = asyncio.Event()
        self.has_left = asyncio.Event()
        self.was_cancelled = False

    def join(self, outlet: Socket) -> None:
        self.outlet = outlet

    def hear(self, text: bytes) -> Awaitable[None] | None:
        self.heard_by.append(asyncio.current_task())
        if text == b"refused":
            raise InvalidInputError("No.")
        if text == b"broken":
            raise ValueError("a defect")
        if text == b"later":
            return self._answer_later(text)
        self._answer(text)
        return None

    async def settle(self) -> None:
        self._answer(b"settled")

    def recognise(self, pong: bytes) -> None:
        self._answer(b"pong")

    def leave(self) -> None:
        self.has_left.set()

    def _answer(self, text: bytes) -> None:
        assert self.outlet is not None
        self.outlet.push(text_frame(text))

    async def _answer_later(self, text: bytes) -> None:
        self.has_begun.set()
        try:
            await self.may_go_on.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        self._answer(text)


@pytest.fixture
def party() -> Party:
    return Party()


@pytest.fixture
async def client(party: Party) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async def talk(request: web.Request) -> web.StreamResponse:
        return Socket(party, 1_000).accept(request)

    application = web.Application()
    application.router.add_get("/", talk)
    async with (
        TestServer(application, handler_cancellation=True) as server,
        aiohttp.ClientSession() as session,
        session.ws_connect(server.make_url("/"), autoping=False) as socket,
    ):
        yield socket


async def said(socket: aiohttp.ClientWebSocketResponse, count: int) -> list[str]:
    """The next text frames."""
    return [await socket.receive_str(timeout=_PATIENCE_SECONDS) for _ in range(count)]


async def test_a_frame_is_processed_without_a_task(
    party: Party, client: aiohttp.ClientWebSocketResponse
) -> None:
    await client.send_str("first")
    await said(client, 1)  # the reader is idle from now on
    await client.send_str("second")

    assert await said(client, 1) == ["second"]
    assert party.heard_by[1] is None


async def test_frames_wait_for_the_processing_of_earlier_ones(
    party: Party, client: aiohttp.ClientWebSocketResponse
) -> None:
    for text in ("a", "later", "b"):
        await client.send_str(text)
    await client.ping()
    await client.pong()
    await client.send_str("c")
    assert await said(client, 1) == ["a"]
    await party.has_begun.wait()

    party.may_go_on.set()

    assert await said(client, 3) == ["later", "b", "settled"]
    assert (await client.receive(timeout=_PATIENCE_SECONDS)).type is WSMsgType.PONG
    assert await said(client, 2) == ["pong", "c"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("refused", WSCloseCode.POLICY_VIOLATION), ("broken", WSCloseCode.INTERNAL_ERROR)],
)
async def test_an_error_closes_the_socket(
    client: aiohttp.ClientWebSocketResponse, text: str, code: WSCloseCode
) -> None:
    await client.send_str("idle")
    await said(client, 1)

    await client.send_str(text)

    message = await client.receive(timeout=_PATIENCE_SECONDS)
    assert (message.type, message.data) == (WSMsgType.CLOSE, code)


async def test_processing_ends_with_the_connection(
    party: Party, client: aiohttp.ClientWebSocketResponse
) -> None:
    await client.send_str("idle")
    await said(client, 1)
    await client.send_str("later")
    await asyncio.wait_for(party.has_begun.wait(), _PATIENCE_SECONDS)

    client._response.connection.transport.abort()  # type: ignore[union-attr]

    await asyncio.wait_for(party.has_left.wait(), _PATIENCE_SECONDS)
    await asyncio.sleep(0)
    assert party.was_cancelled
