"""The wallet's events as server-sent events (the HTML standard, section 9.2)."""

import asyncio
from contextlib import suppress

import orjson
from aiohttp import web

from bridge_server.headless.control.wire import event_fields
from bridge_server.headless.feed import Feed, Happening
from bridge_server.web.event_stream import KEEP_ALIVE

_KEEP_ALIVE_SECONDS = 15.0
_MOST_WAITING = 10_000
"""The number of events that wait for a client that does not read; then its stream ends."""


async def stream_events(request: web.Request, feed: Feed, stopping: asyncio.Event) -> web.StreamResponse:
    """Write each event from now on as `data:` and one JSON object, until one side has enough."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    waiting: asyncio.Queue[Happening] = asyncio.Queue(_MOST_WAITING)
    has_lost_one = asyncio.Event()

    def watch(happening: Happening) -> None:
        try:
            waiting.put_nowait(happening)
        except asyncio.QueueFull:
            has_lost_one.set()

    with feed.watched_by(watch):
        await response.prepare(request)
        await response.write(b"retry: 1000\n\n")
        with suppress(ConnectionError):
            await _write_events(response, waiting, stopping, has_lost_one)
    return response


async def _write_events(
    response: web.StreamResponse,
    waiting: asyncio.Queue[Happening],
    stopping: asyncio.Event,
    has_lost_one: asyncio.Event,
) -> None:
    ending = asyncio.ensure_future(stopping.wait())
    try:
        while not (ending.done() or has_lost_one.is_set()):
            event = asyncio.ensure_future(waiting.get())
            try:
                await asyncio.wait(
                    [event, ending], timeout=_KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if event.done():
                    await response.write(b"data: %b\n\n" % orjson.dumps(event_fields(event.result())))
                elif not ending.done():
                    await response.write(KEEP_ALIVE)
            finally:
                event.cancel()
    finally:
        ending.cancel()
