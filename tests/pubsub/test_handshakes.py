"""A handshake that is none is a 400, and takes no place."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from structlog.testing import CapturingLogger

from bridge_server.kernel.token_bucket import Limit
from bridge_server.web import request_log
from bridge_server.web.addresses import ClientAddresses
from bridge_server.web.limits import Quotas
from bridge_server.web.metrics import RequestFigures
from bridge_server.web.open_connections import ConnectionLimits, Connections, UnreadLimits
from bridge_server.web.problems import RequestIds
from bridge_server.web.request_log import Refusals, Reporting, RequestLines
from bridge_server.web.routes import Access, Route
from bridge_server.web.serving import Charging, Gateway
from bridge_server.web.sockets import Socket
from tests.support.clock import ManualClock
from tests.support.raw_http import ask_raw, spell
from tests.support.server import RunningServer, running_server
from tests.support.socket_client import connected

_KEY = b"dGhlIHNhbXBsZSBub25jZQ=="


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """One place for a socket; nobody is exempt."""
    async with running_server(tmp_path, max_sockets=1, quota_exempt=()) as server:
        yield server


def handshake(*others: bytes, key: bytes = _KEY, version: bytes = b"13", body: bytes = b"") -> bytes:
    return spell(
        "GET", "/", body, b"Connection: Upgrade", b"Upgrade: websocket",
        b"Sec-WebSocket-Key: " + key, b"Sec-WebSocket-Version: " + version, *others,
    )  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        handshake(key=b"\xff"),
        handshake(key="schlüssel".encode()),
        handshake(key=b"a" * 21),
        handshake(version=b"\xff"),
        handshake(version="１３".encode()),
        handshake(version=b"12"),
        handshake(body=b"body"),
    ],
)
async def test_an_invalid_handshake_is_a_400_and_is_not_counted_as_a_socket(
    server: RunningServer, wrong: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(request_log, "log", log)

    for _ in range(2):
        (await ask_raw(server, wrong)).problem(400)

    assert log.calls == []
    async with connected(server.client, server.url) as socket:
        await socket.settled()


class Party:
    """Notes that it was told to leave."""

    has_left = False

    def hear(self, text: bytes) -> None:
        raise AssertionError(text)

    def leave(self) -> None:
        self.has_left = True


async def test_a_client_that_leaves_while_its_charge_is_saved_is_not_counted_as_a_socket() -> None:
    party = Party()

    async def leave_meanwhile() -> None:
        raise asyncio.CancelledError

    async def welcome(_: web.Request) -> web.StreamResponse:
        return Socket(cast(Any, party), 1_000)

    async def identify(_: web.Request, token: str) -> str:
        return token

    figures, addresses = RequestFigures(), ClientAddresses((), ())
    gateway = Gateway(
        RequestIds(os.urandom),
        Connections(addresses, ConnectionLimits(9, 9, 9.0, UnreadLimits(9, 9, 9.0))),
        Charging(Quotas(ManualClock()), leave_meanwhile),
        figures,
        RequestLines(Reporting(1.0, 1.0, every_request=False), addresses, Refusals()),
    )
    limit = Limit("calls", burst=2, interval_us=2_000_000)
    access = Access(identify=identify)
    row = Route(method="GET", path="/", name="root", handler=welcome, access=access, caller_limits=(limit,))
    request = make_mocked_request("GET", "/", {"Authorization": "Bearer x"})

    with pytest.raises(asyncio.CancelledError):
        await gateway.around(row)(request)

    assert party.has_left
    assert figures.routes["root"].statuses == {499: 1}
