"""A receiver of webhooks on a real port, with scripted answers, that keeps every request."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ssl import SSLContext

from aiohttp import web
from multidict import CIMultiDictProxy

from tests.support import fakes
from tests.support.waiting import eventually


@dataclass(frozen=True, slots=True)
class Received:
    connection: object
    path: str
    headers: CIMultiDictProxy[str]
    body: bytes


Answer = Callable[["WebhookReceiver", web.BaseRequest], Awaitable[web.StreamResponse]]


class WebhookReceiver:
    """Gives the answers in `script`, each once, and after them `otherwise`."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.script: deque[Answer] = deque()
        self.otherwise: Answer = status(200)
        self.at_once = 0
        self.most_at_once = 0
        self.answered_bytes = 0
        self.port = 0
        self.released = asyncio.Event()

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def got(self, count: int) -> None:
        await eventually(lambda: len(self.requests) >= count)

    def application(self) -> web.Application:
        application = web.Application(client_max_size=0)
        application.router.add_route("*", "/{path:.*}", self.handle)
        return application

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(Received(request.transport, request.path_qs, request.headers, body))
        answer = self.script.popleft() if self.script else self.otherwise
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await answer(self, request)
        finally:
            self.at_once -= 1


status, reset = fakes.status, fakes.reset


async def hang(receiver: WebhookReceiver, _: web.BaseRequest) -> web.Response:
    """Say nothing until the receiver is released or closed."""
    await receiver.released.wait()
    return web.Response()


def long_body(size: int, **headers: str) -> Answer:

    async def answer(receiver: WebhookReceiver, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        for _ in range(size // 8_192):
            await response.write(bytes(8_192))
            receiver.answered_bytes += 8_192
        return response

    return answer


async def stuck_body(receiver: WebhookReceiver, request: web.BaseRequest) -> web.StreamResponse:
    """Answer 200, begin a body and never end it."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"and then")
    await receiver.released.wait()
    return response


@asynccontextmanager
async def open_receiver(
    tls: SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[WebhookReceiver]:
    """A receiver that listens there, until the block is left: at `0.0.0.0` it is every host 127.x.y.z."""
    receiver = WebhookReceiver()
    runner = web.ServerRunner(web.Server(receiver.handle, access_log=None), shutdown_timeout=1)
    async with fakes.listening(runner, receiver.released, host=host, tls=tls) as receiver.port:
        yield receiver
