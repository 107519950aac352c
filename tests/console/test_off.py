"""A server without a console, and one whose console has a port of its own."""

from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from bridge_server.assembly.application import build_app
from bridge_server.settings.settings import Settings
from bridge_server.web.serving import runner_of
from tests.support.asking import ask
from tests.support.server import running_server

PATHS = (
    "/console",
    "/console/projects",
    "/console/sign-in?link=x",
    "/console/events",
    "/console/static/x.css",
)


async def test_without_the_setting_there_is_nothing(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data") as server:
        for path in PATHS:
            (await ask(server, "GET", path)).problem(404)


async def test_a_console_on_its_own_port_is_on_no_other(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", console=True, console_port=0) as server:
        for path in PATHS:
            (await ask(server, "GET", path)).problem(404)


async def test_the_own_port_has_the_console_alone(tmp_path: Path) -> None:
    built = build_app(Settings(data_dir=tmp_path / "data", console=True, console_port=0))
    assert built.console is not None
    main, console = runner_of(built.application), runner_of(built.console)
    try:
        await main.setup()
        await console.setup()
        await web.TCPSite(console, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{console.addresses[0][1]}"
        async with aiohttp.ClientSession() as client:
            async with client.get(f"{url}/console/projects") as answer:
                assert answer.status == 401
            async with client.get(f"{url}/info") as answer:
                assert answer.status == 404
    finally:
        await console.cleanup()
        await main.cleanup()


def test_a_port_without_a_console_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="console_port: the console is off"):
        Settings(data_dir=tmp_path, console_port=8081)
