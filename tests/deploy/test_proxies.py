"""A server behind nginx and behind Caddy, with the configurations of deploy/: nothing is lost on the way.

A test that waits 25 seconds really waits: the proxies have their own clocks.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.deploy.programs import needs, path_of, running
from tests.support.credentials import throw_away_certificate
from tests.support.inbox_client import open_stream, sign_in
from tests.support.needs import slow
from tests.support.programs import free_ports
from tests.support.project import opened_app
from tests.support.server import RunningServer
from tests.support.socket_client import connected
from tests.support.waiting import eventually

_DEPLOY = Path(__file__).parents[2] / "deploy"

_NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/bridge.conf;
}}
"""
_CADDY = """
{{
    admin off
    skip_install_trust
    http_port {plain_port}
    https_port {port}
}}
import {folder}/bridge.caddy
"""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that runs: its public URL, that of plain HTTP, and the certificate that clients trust."""

    url: str
    plain_url: str
    ca_file: Path

    def client(self, source: str = "127.0.0.9") -> aiohttp.ClientSession:
        """A client whose own address is `source`."""
        trusting = ssl.create_default_context(cafile=str(self.ca_file))
        connector = aiohttp.TCPConnector(ssl=trusting, local_addr=(source, 0), limit=0)
        return aiohttp.ClientSession(connector=connector)


@asynccontextmanager
async def nginx(folder: Path, server_url: str) -> AsyncIterator[Proxy]:
    """nginx with deploy/nginx.conf, in which ports and certificate are the test's."""
    port, plain_port = free_ports(2)
    certificate = throw_away_certificate(folder).ca_file
    config = (_DEPLOY / "nginx.conf").read_text("utf-8")
    for written, wanted in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("listen 80;", f"listen 127.0.0.1:{plain_port};"),
        ("    listen [::]:443 ssl http2;\n", ""),
        ("    listen [::]:80;\n", ""),
        ("/etc/letsencrypt/live/bridge.example.org/fullchain.pem", str(certificate)),
        ("/etc/letsencrypt/live/bridge.example.org/privkey.pem", str(certificate.with_name("key.pem"))),
        ("127.0.0.1:8080", server_url.removeprefix("http://")),
    ):
        assert written in config, written
        config = config.replace(written, wanted)
    (folder / "bridge.conf").write_text(config)
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder))
    command: list[str | Path] = [path_of("nginx") or "", "-p", folder, "-c", folder / "nginx.conf"]
    proxy = Proxy(f"https://127.0.0.1:{port}", f"http://127.0.0.1:{plain_port}", certificate)
    with running(command, folder / "log"):
        await _until_ready(proxy, certificate.exists)
        yield proxy


@asynccontextmanager
async def caddy(folder: Path, server_url: str) -> AsyncIterator[Proxy]:
    """Caddy with deploy/Caddyfile and a certificate of its own authority, as for every local name."""
    port, plain_port = free_ports(2)
    (folder / "bridge.caddy").write_text((_DEPLOY / "Caddyfile").read_text("utf-8"))
    (folder / "Caddyfile").write_text(_CADDY.format(folder=folder, port=port, plain_port=plain_port))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "BRIDGE_DOMAIN": "localhost",
        "BRIDGE_UPSTREAM": server_url.removeprefix("http://"),
    }
    authority = folder / "data" / "caddy" / "pki" / "authorities" / "local" / "root.crt"
    command = [path_of("caddy") or "", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    proxy = Proxy(f"https://localhost:{port}", f"http://localhost:{plain_port}", authority)
    with running(command, folder / "log", environment):
        await _until_ready(proxy, authority.exists)
        yield proxy


async def _until_ready(proxy: Proxy, is_there: Callable[[], bool]) -> None:
    async def answers() -> bool:
        if not is_there():
            return False
        try:
            async with proxy.client() as client, client.get(f"{proxy.url}/hello") as answer:
                return answer.status == 200
        except (aiohttp.ClientError, OSError):
            return False

    await eventually(answers)


pytestmark = [slow]

_PROXIES = {"nginx": nginx, "caddy": caddy}
_BURST = 3


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """The settings that the comment in each configuration names; and a limit that a test can reach."""
    return {
        "test": False,  # test mode is for this machine alone, and these come through a proxy
        "trusted_proxies": ["127.0.0.1"],
        "quota_exempt": [],
        "sessions_burst": _BURST,
        "sessions_per_minute": 0.001,
    }


@pytest.fixture(params=[pytest.param(name, marks=needs(name)) for name in _PROXIES])
async def proxy(
    request: pytest.FixtureRequest, tmp_path: Path, server: RunningServer
) -> AsyncIterator[Proxy]:
    async with _PROXIES[request.param](tmp_path, server.url) as proxy:
        yield proxy


async def test_everything_that_waits_for_25_seconds_stays_open(proxy: Proxy, server: RunningServer) -> None:
    prefer = {"Prefer": "wait=25"}
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(proxy.client("127.0.0.21"))
        app = await stack.enter_async_context(opened_app(server))
        inbox = await sign_in(server)
        await inbox.subscribe(app.project_id)
        through = replace(inbox, server=replace(server, url=proxy.url, client=client))
        stream = await stack.enter_async_context(open_stream(through))
        wallet = await stack.enter_async_context(connected(client, proxy.url))
        dapp = await stack.enter_async_context(connected(client, proxy.url))
        await wallet.subscribe("a-topic")
        session = f"{proxy.url}/session/{await _open_session(client, proxy)}"

        async with client.get(session, headers=prefer) as silent:
            assert silent.status == 204
        await dapp.publish("a-topic", "after the silence")
        assert (await wallet.message())["payload"] == "after the silence"
        await app.notify([inbox.account], title="after the silence")
        assert await stream.titles(1) == ["after the silence"]

        waiting = asyncio.create_task(_body(client, session, prefer))
        async with client.put(session, json={"encryptionPayload": "approval"}) as approved:
            assert approved.status == 200
        assert await waiting == b'{"encryptionPayload":"approval"}'


async def test_limits_count_the_client_not_the_proxy(proxy: Proxy, request: pytest.FixtureRequest) -> None:
    number = list(_PROXIES).index(request.node.callspec.params["proxy"])
    async with proxy.client(f"127.0.1.{number}") as client, proxy.client(f"127.0.2.{number}") as neighbour:
        asked = [await _status(client, proxy) for _ in range(_BURST + 1)]
        pretending = await _status(client, proxy, {"X-Forwarded-For": "192.0.2.7"})
        beside = await _status(neighbour, proxy)
    assert asked == [200] * _BURST + [429]
    assert (pretending, beside) == (429, 200)


async def test_plain_http_leads_to_tls_and_the_largest_body_of_the_bridge_passes(proxy: Proxy) -> None:
    async with proxy.client("127.0.0.22") as client:
        async with client.get(f"{proxy.plain_url}/hello", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"][:8]) == (308, "https://")

        session = f"{proxy.url}/session/{await _open_session(client, proxy)}"
        payload = "a" * 250_000
        async with client.put(session, json={"encryptionPayload": payload}) as taken:
            assert taken.status == 200
        assert len(await _body(client, session)) > len(payload)


async def _open_session(client: aiohttp.ClientSession, proxy: Proxy) -> str:
    async with client.post(f"{proxy.url}/session/new") as answer:
        assert answer.status == 200, await answer.text()
        session_id: str = (await answer.json())["sessionId"]
        return session_id


async def _status(client: aiohttp.ClientSession, proxy: Proxy, headers: dict[str, str] | None = None) -> int:
    async with client.post(f"{proxy.url}/session/new", headers=headers) as answer:
        return answer.status


async def _body(client: aiohttp.ClientSession, url: str, headers: dict[str, str] | None = None) -> bytes:
    async with client.get(url, headers=headers) as answer:
        assert answer.status == 200
        return await answer.read()
