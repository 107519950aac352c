"""A server to talk to: in this process with a clock to move, or in one of its own that can be killed."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from bridge_server.assembly.application import build_app
from bridge_server.settings.settings import Settings
from bridge_server.web.serving.application import runner_of
from tests.support.clock import ManualClock
from tests.support.schema import place_schema

_START_SECONDS = 20.0
_STOP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A real server on a real port with a real database file, in this process."""

    url: str
    settings: Settings
    clock: ManualClock
    client: aiohttp.ClientSession
    test_token: str | None = None

    async def open_session(self) -> str:
        """A new session's id."""
        async with self.client.post(f"{self.url}/session/new") as response:
            session_id: str = (await response.json())["sessionId"]
            return session_id

    async def request_call(self, session_id: str, payload: Any = "call", dapp_name: str = "Dapp") -> str:
        """A new call's id."""
        body = {"encryptionPayload": payload, "dappName": dapp_name}
        async with self.client.post(f"{self.url}/session/{session_id}/call/new", json=body) as response:
            assert response.status == 200, await response.text()
            call_id: str = (await response.json())["callId"]
            return call_id


@asynccontextmanager
async def running_server(
    data_dir: Path, clock: ManualClock | None = None, **settings: Any
) -> AsyncIterator[RunningServer]:
    """Start a server over `data_dir`; settings by name. Stops it as a SIGTERM would."""
    chosen = Settings(**{"port": 0, "data_dir": data_dir, **settings})
    clock = clock or ManualClock()
    place_schema(chosen.database_file)
    built = build_app(chosen, clock)
    runner = runner_of(built.application)
    try:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", chosen.port, backlog=1024).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            yield RunningServer(url, chosen, clock, client, built.test_token)
    finally:
        await runner.cleanup()
    await asyncio.sleep(0)


@dataclass(slots=True)
class ServerProcess:
    """A server started from its command, in a process of its own."""

    url: str
    process: subprocess.Popen[bytes]
    facts: dict[str, Any]

    def kill(self) -> None:
        """End it with SIGKILL: no goodbye."""
        self.process.kill()
        self.process.wait(_STOP_SECONDS)

    def stop(self) -> int:
        """End it with SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_STOP_SECONDS)


@contextmanager
def server_process(
    data_dir: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """Run `python -m bridge_server serve` over `data_dir` on a free port until the end of the block."""
    ready_file = data_dir.parent / f"{data_dir.name}.ready"
    ready_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "bridge_server", "serve", "--port", "0", "--data-dir", str(data_dir)]
    process = subprocess.Popen(
        [*command, "--ready-file", str(ready_file), *arguments],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.DEVNULL,
    )
    try:
        facts = _wait_until_ready(process, ready_file)
        yield ServerProcess(facts["url"], process, facts)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(_STOP_SECONDS)


def _wait_until_ready(process: subprocess.Popen[bytes], ready_file: Path) -> dict[str, Any]:
    deadline = monotonic() + _START_SECONDS
    while not ready_file.exists():
        assert process.poll() is None, f"the server ended with exit code {process.returncode}"
        assert monotonic() < deadline, "the server did not become ready"
        sleep(0.02)
    facts: dict[str, Any] = orjson.loads(ready_file.read_bytes())
    return facts
