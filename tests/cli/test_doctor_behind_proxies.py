"""`doctor` through real proxies: nginx and Caddy, where they are installed."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge_server.cli.doctor import machine
from tests.cli.attended import attended_server
from tests.cli.conftest import Invoke
from tests.cli.test_doctor import Findings, levels, read, text
from tests.support.admin_client import ADMIN_TOKEN
from tests.support.eventually import eventually
from tests.support.free_ports import free_ports

_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))

_NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log stderr;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass {server}; proxy_set_header Host $host; {more} }}
    }}
}}
"""
_WELL = """proxy_http_version 1.1; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;"""
_HASTY = "proxy_read_timeout 1s;"
_CADDY = """
{{
    admin off
}}
http://127.0.0.1:{port} {{
    reverse_proxy {server}
}}
"""


def program(name: str) -> str:
    """The path of a program, without which the test is skipped."""
    found = shutil.which(name, path=_PATH)
    if found is None:
        pytest.skip(f"needs {name}: `scripts/system-packages` installs it")
    return found


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[None]:
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield
    finally:
        process.kill()
        process.wait(10)


def commands(kind: str, more: str, folder: Path, port: int, server: str) -> list[str]:
    """The command of a proxy before this server; its configuration is written."""
    folder.mkdir()
    if kind == "caddy":
        (folder / "Caddyfile").write_text(_CADDY.format(port=port, server=server))
        return [program(kind), "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder, port=port, server=server, more=more))
    return [program(kind), "-p", str(folder), "-c", str(folder / "nginx.conf")]


async def examined(
    kind: str, more: str, tmp_path: Path, port: int, invoke: Invoke, patch: pytest.MonkeyPatch
) -> Findings:
    """What the doctor finds behind a proxy."""
    patch.setattr(machine, "is_synchronised", lambda: True)
    url = f"http://127.0.0.1:{port}"
    chosen: dict[str, Any] = {
        "public_url": url,
        "admin_token": ADMIN_TOKEN,
        "max_wait": 2,
        "port": 0,
        "trusted_proxies": "127.0.0.1",
    }
    for name, value in chosen.items():
        patch.setenv(f"BRIDGE_{name.upper()}", str(value))
    async with attended_server(tmp_path / "data", invoke, **chosen) as attended:

        async def answers() -> bool:
            try:
                async with attended.server.client.get(f"{url}/hello") as response:
                    return response.status == 200
            except aiohttp.ClientError:
                return False

        with running(commands(kind, more, tmp_path / "proxy", port, attended.server.url), tmp_path / "proxy"):
            await eventually(answers)
            return read(await attended.command("doctor", "--json"))[1]


@pytest.mark.parametrize(("kind", "more"), [("nginx", _WELL), ("caddy", "")])
async def test_a_proxy_that_is_well_is_found_well(
    kind: str, more: str, tmp_path: Path, port: int, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await examined(kind, more, tmp_path, port, invoke, monkeypatch)

    assert levels(found, "proxy") == ["ok", "ok"], found
    assert levels(found, "long poll") == levels(found, "websocket") == ["ok"], found


async def test_nginx_as_it_is_by_itself_is_found_wanting(
    tmp_path: Path, port: int, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await examined("nginx", _HASTY, tmp_path, port, invoke, monkeypatch)

    assert "X-Forwarded-For does not arrive" in text(found, "proxy")
    assert levels(found, "long poll") == levels(found, "websocket") == ["fail"]
    assert "answered 504" in text(found, "long poll")
