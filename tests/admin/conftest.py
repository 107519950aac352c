"""A server that an operator looks at, and the sides whose requests there are to see."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.asking import Answer
from tests.support.bridge_client import BridgeClient
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually


@dataclass(frozen=True, slots=True)
class Observed:
    """The operator, and a dapp with its wallet."""

    admin: AdminClient
    bridge: BridgeClient

    async def traffic(self, query: str = "") -> list[dict[str, Any]]:
        """The requests that were recorded, newest first."""
        answer = await self.admin.get("/admin/traffic" + query.replace(" ", "+"))
        found: list[dict[str, Any]] = answer.json["requests"]
        return found

    async def routes(self, query: str = "") -> list[str]:
        return [each["route"] for each in await self.traffic(query)]

    async def waiting_poll(self, path: str) -> "asyncio.Task[Answer]":
        """A long poll that is held."""
        before = (await self.admin.get("/admin/stats")).json["waiting"]
        poll = asyncio.create_task(self.bridge.get(path))

        async def is_held() -> bool:
            return bool((await self.admin.get("/admin/stats")).json["waiting"] > before)

        await eventually(is_held)
        return poll


def change_of(place: int | str) -> int:
    """The number of a change: of the place `5`, and of `1:5` where processes share the database."""
    return int(str(place).rpartition(":")[2])


@asynccontextmanager
async def observing(data_dir: Path, **settings: Any) -> AsyncIterator[Observed]:
    """A server with the admin API and its record of requests, unless the settings say otherwise."""
    chosen = {"admin_token": ADMIN_TOKEN, "traffic": True, "allow_private_webhooks": True, **settings}
    async with running_server(data_dir, **chosen) as server:
        yield Observed(AdminClient(server), BridgeClient(server))


@dataclass(frozen=True, slots=True)
class TrafficReader:
    """An open stream of requests."""

    response: aiohttp.ClientResponse

    async def next(self) -> dict[str, Any]:
        """The next request; comments are passed over."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(60):
            while fields.get("event") != "request":
                lines = []
                while (line := await self.response.content.readline()) not in (b"\n", b""):
                    lines.append(line.decode().rstrip("\n"))
                fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        request: dict[str, Any] = orjson.loads(fields["data"])
        assert change_of(fields["id"]) == request["change"]
        return request


@asynccontextmanager
async def stream_of(observed: Observed, query: str = "", **headers: str) -> AsyncIterator[TrafficReader]:
    """A stream that has begun, until the end of the block."""
    server = observed.admin.server
    sent = {"Authorization": f"Bearer {ADMIN_TOKEN}", **headers}
    async with server.client.get(
        f"{server.url}/admin/traffic/stream{query}", headers=sent, timeout=aiohttp.ClientTimeout(total=None)
    ) as response:
        assert response.status == 200, await response.text()
        assert await response.content.readline() == b"retry: 2000\n"
        yield TrafficReader(response)


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """The server calls webhooks on this machine, and sweeps often."""
    return {"admin_token": ADMIN_TOKEN, "allow_private_webhooks": True, "sweep_interval": 0.02}


@pytest.fixture
def admin(server: RunningServer) -> AdminClient:
    """The operator of the server; the clock stands still."""
    return AdminClient(server)


@pytest.fixture
async def observed(tmp_path: Path) -> AsyncIterator[Observed]:
    """A server in production that keeps its record of requests."""
    async with observing(tmp_path / "data") as running:
        yield running
