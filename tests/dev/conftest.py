"""A server as `dev` runs it, in this process, with a second listener as phones reach it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from bridge_server.assembly.application import BuiltApp
from bridge_server.assembly.room import DemoProject
from bridge_server.cli.server_run import lan_listening
from bridge_server.kit.fixtures.run import serving
from bridge_server.kit.testing.server import Control
from bridge_server.settings.settings import Settings
from tests.support.asking import METRICS_TOKEN

SECRET = "bsk_demo_of_the_test"
DEMO = DemoProject("demo", "Demo", SECRET, {"news": "News", "alerts": "Alerts"})


@dataclass(frozen=True, slots=True)
class DevServer:
    """Both addresses of one server, and what it is built of."""

    url: str
    lan_url: str
    built: BuiltApp
    control: Control
    client: aiohttp.ClientSession

    async def ask(self, method: str, url: str, fields: Any = None, **headers: str) -> tuple[int, Any]:
        """The status of an answer, and its JSON; its text if it is none."""
        body = None if fields is None else orjson.dumps(fields)
        async with self.client.request(method, url, data=body, headers=headers) as response:
            content = await response.read()
        try:
            return response.status, orjson.loads(content) if content else None
        except orjson.JSONDecodeError:
            return response.status, content.decode()

    async def open_session(self) -> str:
        _, opened = await self.ask("POST", f"{self.url}/session/new")
        return str(opened["sessionId"])


@asynccontextmanager
async def running_dev(data_dir: Path, demo: DemoProject | None = DEMO) -> AsyncIterator[DevServer]:
    """Run it over the directory; here the address for phones is one of loopback, too."""
    settings = Settings(
        data_dir=data_dir, port=0, test=True, dev_accounts=True, allow_private_webhooks=True,
        metrics_token=METRICS_TOKEN,
    )  # fmt: skip
    async with (
        serving(settings, demo=demo) as served,
        lan_listening(served.built.lan_application(served.url), "127.0.0.1", 0) as lan_url,
        Control(served.url, served.built.test_token or "") as control,
        aiohttp.ClientSession(skip_auto_headers=["Content-Type"]) as client,
    ):
        yield DevServer(served.url, lan_url, served.built, control, client)


@pytest.fixture(scope="module")
async def dev(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DevServer]:
    """One for all tests of a module: none depends on what others store."""
    async with running_dev(tmp_path_factory.mktemp("dev") / "data") as server:
        yield server
