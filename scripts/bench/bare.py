"""The ceilings: bare aiohttp applications, each of which does the least that a row of the benchmark can cost.

No store, no middleware, no access log. `bare.py KIND OPTIONS --ready-file FILE` runs one in a process of its
own on the event loop that the server prefers; OPTIONS are JSON, the arguments of the function of that name.
"""

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from machine import new_event_loop

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answer(method: str, route: str, status: int, content_type: str | None, body_file: str) -> web.Application:
    """Reads the body when there is one, and answers the same every time."""
    headers = {"Content-Type": content_type} if content_type else {}
    body = Path(body_file).read_bytes() or None

    async def handle(request: web.Request) -> web.Response:
        if request.method != "GET":
            await request.read()
        return web.Response(status=status, body=body, headers=headers)

    return _routed((method, route, handle))


def stream(route: str, body_file: str, piece_bytes: int) -> web.Application:
    """Writes its answer in pieces, from memory."""
    body = Path(body_file).read_bytes()
    pieces = [body[start : start + piece_bytes] for start in range(0, len(body), piece_bytes)]

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response

    return _routed(("GET", route, handle))


def echo(route: str) -> web.Application:
    """A WebSocket that sends back what it is sent."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.WebSocketResponse()
        await response.prepare(request)
        async for message in response:
            await response.send_str(message.data)
        return response

    return _routed(("GET", route, handle))


def wait(route: str) -> web.Application:
    """The least that a long poll can cost: a request that waits on an event."""

    async def handle(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response(status=204)

    return _routed(("GET", route, handle))


def receive() -> web.Application:
    """Takes whatever is posted to it, as a push service does; GET /received counts it.

    It hands out access tokens at /token as Google does.
    """
    received = {"count": 0, "body_bytes": 0, "first_at": 0.0, "last_at": 0.0}

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        received["last_at"] = time.monotonic()
        received["first_at"] = received["first_at"] or received["last_at"]
        received["count"] += 1
        received["body_bytes"] += len(body)
        return web.json_response(
            {"name": "projects/demo-wallet/messages/0:1700000000000000%31bd1c9631bd1c96"}
        )

    async def grant(request: web.Request) -> web.Response:
        await request.read()
        return web.json_response({"access_token": "ya29.local", "expires_in": 3600, "token_type": "Bearer"})

    async def count(_: web.Request) -> web.Response:
        return web.json_response(received)

    return _routed(("GET", "/received", count), ("POST", "/token", grant), ("POST", "/{path:.*}", take))


_KINDS: dict[str, Callable[..., web.Application]] = {
    each.__name__: each for each in (answer, stream, echo, wait, receive)
}


def _routed(*routes: tuple[str, str, Handler]) -> web.Application:
    app = web.Application()
    for method, route, handler in routes:
        app.router.add_route(method, route, handler)
    return app


def main() -> None:
    kind, options, _, ready_file = sys.argv[1:]
    arguments: dict[str, Any] = json.loads(options)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def say_ready(_: str) -> None:
        Path(ready_file).write_text(json.dumps({"url": url, "pid": os.getpid()}))

    web.run_app(
        _KINDS[kind](**arguments),
        sock=listener,
        access_log=None,
        print=say_ready,
        loop=new_event_loop(),
        shutdown_timeout=0.1,
    )


if __name__ == "__main__":
    main()
