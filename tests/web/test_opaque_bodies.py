"""Bodies with many values are parsed beside the event loop, with equal results."""

import asyncio
import threading
from typing import Any

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from bridge_server.kernel.errors import InvalidInputError, UnsupportedMediaError
from bridge_server.web import bodies as opaque_body
from bridge_server.web.bodies import OpaqueBodies, parse_object

FEW = b'{"encryptionPayload":{"a":"' + b"x" * 100_000 + b'"}}'
MANY = b'{"encryptionPayload":{"a":[' + b"[]," * 5_000 + b"[]]}}"


class Protocol(BaseProtocol):
    """Nobody sends on it."""

    _reading_paused = False


async def request_with(body: bytes, content_type: str = "application/json") -> web.Request:
    payload = StreamReader(Protocol(asyncio.get_running_loop()), 2**20, loop=asyncio.get_running_loop())
    payload.feed_data(body)
    payload.feed_eof()
    return make_mocked_request("PUT", "/", {"Content-Type": content_type}, payload=payload)


@pytest.mark.parametrize(("body", "is_beside"), [(FEW, False), (MANY, True)])
async def test_only_many_values_are_read_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, body: bytes, is_beside: bool
) -> None:
    threads = []

    def note_thread(body: bytes, **options: Any) -> Any:
        threads.append(threading.current_thread() is not threading.main_thread())
        return parse_object(body, **options)

    monkeypatch.setattr(opaque_body, "parse_object", note_thread)

    document = await OpaqueBodies().json_object(await request_with(body))

    assert threads == [is_beside]
    assert document.text("encryptionPayload") == body[len(b'{"encryptionPayload":') : -1]


async def test_an_error_found_in_the_thread_is_raised_to_the_handler() -> None:
    bodies = OpaqueBodies()

    with pytest.raises(InvalidInputError, match="not JSON"):
        await bodies.json_object(await request_with(MANY + b"]"))
    with pytest.raises(UnsupportedMediaError):
        await bodies.json_object(await request_with(MANY, "text/plain"))
