"""The ceiling: a bare aiohttp application that answers one route with bytes it was given.

What remains when the server's work is taken away: no store, no middleware, no access log. Run as a
process of its own, on the event loop that the server prefers.
"""

import argparse
import asyncio
import io
import json
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from aiohttp import web
from event_loop import new_event_loop

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answering(status: int, headers: dict[str, str], body: bytes | None) -> Handler:
    """A handler that reads the body when there is one, and answers the same every time."""

    async def handle(request: web.Request) -> web.Response:
        if request.method != "GET":
            await request.read()
        return web.Response(status=status, body=body, headers=headers)

    return handle


def streaming(headers: dict[str, str], pieces: Sequence[bytes]) -> Handler:
    """A handler that writes its answer in these pieces."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response

    return handle


class Broadcast:
    """Streams that stay open, and a POST that writes the same to all of them."""

    def __init__(self, event: bytes) -> None:
        self._chunk = b"%x\r\n%b\r\n" % (len(event), event)
        self._transports: set[asyncio.Transport] = set()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Stay open until the client leaves."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"retry: 2000\n\n")
        assert request.transport is not None
        self._transports.add(request.transport)
        try:
            await asyncio.Event().wait()
        finally:
            self._transports.discard(request.transport)
        return response

    async def send(self, request: web.Request) -> web.Response:
        """Write the event to every stream."""
        await request.read()
        for transport in self._transports:
            transport.write(self._chunk)
        return web.Response(body=b"{}")


async def echo(request: web.Request) -> web.StreamResponse:
    """A WebSocket that sends back whatever it is sent."""
    response = web.WebSocketResponse()
    await response.prepare(request)
    async for message in response:
        await response.send_str(message.data)
    return response


async def wait_for_ever(_request: web.Request) -> web.Response:
    """What a long poll costs at least: a request that waits on an event."""
    await asyncio.Event().wait()
    return web.Response(status=204)


def listening_socket() -> socket.socket:
    """A socket on a free port of loopback."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    return listener


def parse_options() -> argparse.Namespace:
    """The route and its answer, or `--wait` for a route that does not answer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ready-file", type=Path, required=True)
    parser.add_argument("--method", default="GET")
    parser.add_argument("--route", required=True)
    parser.add_argument("--broadcast", help="what a POST writes to all that have GET the route")
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--echo", action="store_true", help="a WebSocket that sends back what it is sent")
    parser.add_argument("--status", type=int, default=200)
    parser.add_argument("--content-type")
    parser.add_argument("--body-file", type=Path)
    parser.add_argument("--piece-lengths", type=Path, help="a JSON array: stream the body in such pieces")
    return parser.parse_args()


def build(options: argparse.Namespace) -> web.Application:
    """The application of one route."""
    headers = {"Content-Type": options.content_type} if options.content_type else {}
    body = options.body_file.read_bytes() if options.body_file else None
    app = web.Application()
    app.router.add_get("/livez", answering(200, {}, None))
    if options.broadcast:
        broadcast = Broadcast(options.broadcast.encode())
        app.router.add_get(options.route, broadcast.stream)
        app.router.add_post(options.route, broadcast.send)
    else:
        app.router.add_route(options.method, options.route, _handler(options, headers, body))
    return app


def _handler(options: argparse.Namespace, headers: dict[str, str], body: bytes | None) -> Handler:
    if options.wait:
        return wait_for_ever
    if options.echo:
        return echo
    if options.piece_lengths and body is not None:
        rest = io.BytesIO(body)
        return streaming(
            headers, [rest.read(length) for length in json.loads(options.piece_lengths.read_bytes())]
        )
    return answering(options.status, headers, body)


def main() -> None:
    options = parse_options()
    app = build(options)
    listener = listening_socket()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def say_ready(_: str) -> None:
        options.ready_file.write_text(json.dumps({"url": url, "pid": os.getpid()}))

    web.run_app(
        app, sock=listener, access_log=None, print=say_ready, loop=new_event_loop(), shutdown_timeout=0.1
    )


if __name__ == "__main__":
    main()
