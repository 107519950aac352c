"""A door before a bridge, on a real port: it lets requests through, or does to them what a test says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from tests.support.webhook_receiver import Answer, WebhookReceiver, open_receiver, reset

_PASSED_ON = ("Content-Type", "Prefer", "Accept", "Authorization")
_PASSED_BACK = ("Content-Type", "Retry-After")


@asynccontextmanager
async def gate_before(url: str) -> AsyncIterator[WebhookReceiver]:
    """A gate that lets everything through once its `script` is over."""
    async with aiohttp.ClientSession() as client, open_receiver() as gate:
        gate.otherwise = passing(client, url)
        yield gate


def passing(client: aiohttp.ClientSession, url: str) -> Answer:
    """Send the request on, and its answer back."""

    async def answer(_: WebhookReceiver, request: web.BaseRequest) -> web.Response:
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        async with client.request(
            request.method, url + request.path_qs, data=await request.read(), headers=headers
        ) as response:
            return web.Response(
                status=response.status,
                body=await response.read(),
                headers={name: response.headers[name] for name in _PASSED_BACK if name in response.headers},
            )

    return answer


def losing_the_answer(passing_on: Answer) -> Answer:
    """Send the request on, and break off instead of answering."""

    async def answer(gate: WebhookReceiver, request: web.BaseRequest) -> web.StreamResponse:
        await passing_on(gate, request)
        return await reset(gate, request)

    return answer


def saying(body: bytes, status: int = 200) -> Answer:
    """Answer with this body."""

    async def answer(_: WebhookReceiver, __: web.BaseRequest) -> web.Response:
        return web.Response(status=status, body=body)

    return answer
