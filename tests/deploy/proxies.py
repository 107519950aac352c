"""nginx and Caddy with the configurations of deploy/, before a server of a test."""

import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.deploy.programs import path_of, running
from tests.support.credentials import throw_away_certificate
from tests.support.programs import free_ports
from tests.support.waiting import eventually

_DEPLOY = Path(__file__).parents[2] / "deploy"
_START_SECONDS = 60.0

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

    await eventually(answers, _START_SECONDS)
