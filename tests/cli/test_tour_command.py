"""`bridge-server tour` where it cannot be played to its end."""

import asyncio
import sys
from asyncio.subprocess import PIPE

import pytest
from aiohttp import web
from aiohttp.pytest_plugin import AiohttpServer

from tests.cli.conftest import Invoke
from tests.support.slow import slow


@slow
async def test_a_reader_that_leaves_ends_the_tour_without_a_word() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bridge_server", "tour", "--without-node", stdout=PIPE, stderr=PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    await process.stdout.readuntil(b"POST /session/new")
    process.stdout._transport.close()  # type: ignore[attr-defined]

    assert await process.stderr.read() == b""
    assert await process.wait() == 1


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "", "ftp://127.0.0.1"])
def test_a_url_must_be_one(invoke: Invoke, url: str) -> None:
    finished = invoke("tour", "--url", url)

    assert finished.exit_code == 2
    assert finished.stderr.startswith("bridge-server: --url must be an absolute http or https URL")


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[]", b"1"])
async def test_another_server_is_named(aiohttp_server: AiohttpServer, invoke: Invoke, body: bytes) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    server = await aiohttp_server(application)

    finished = await asyncio.to_thread(invoke, "tour", "--url", f"http://127.0.0.1:{server.port}")

    assert finished.exit_code == 2
    assert finished.stderr == (
        f"bridge-server: the tour: http://127.0.0.1:{server.port} does not answer as a bridge server does\n"
    )
