"""A server that takes whatever is posted to it, and tells how much came and when.

A bare aiohttp application, so that receiving costs the same whoever sends. It hands out access tokens at
/token as Google does; each answer to a push can be made to wait, as if the service were far away.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from ceiling import listening_socket
from cores import on_last_core
from event_loop import new_event_loop
from plan import Plan
from processes import MeasurementError, Running, started
from raw_http import fetch

_ANSWER = b'{"name":"projects/demo-wallet/messages/0:1700000000000000%31bd1c9631bd1c96"}'
_ACCESS_TOKEN = b'{"access_token":"ya29.local","expires_in":3600,"token_type":"Bearer"}'
_STALLED_SECONDS = 20.0


@dataclass(slots=True)
class Received:
    """How many pushes came with how many bytes in their bodies; when the first and the last was there."""

    count: int = 0
    body_bytes: int = 0
    first_at: float = 0.0
    last_at: float = 0.0

    @property
    def rate(self) -> float:
        """In a second."""
        return (self.count - 1) / (self.last_at - self.first_at)


class Receiver:
    """The process, from outside."""

    def __init__(self, process: Running) -> None:
        self.url = process.url

    def received(self) -> Received:
        """What has come until now."""
        return Received(**json.loads(fetch(self.url, "GET", "/received").body))

    def wait_for(self, count: int) -> Received:
        """Return once so many have come. Raises MeasurementError when nothing comes any more."""
        before, since = -1, time.monotonic()
        while (received := self.received()).count < count:
            if received.count != before:
                before, since = received.count, time.monotonic()
            elif time.monotonic() - since > _STALLED_SECONDS:
                raise MeasurementError(f"of {count:,} pushes only {before:,} came")
            time.sleep(0.1)
        return received


@contextmanager
def started_receiver(plan: Plan, answer_after_ms: float = 0.0) -> Iterator[Receiver]:
    """Run it on the core of what load generators there are; end it on leaving."""
    command = on_last_core([sys.executable, str(Path(__file__)), "--answer-after-ms", str(answer_after_ms)])
    with plan.folder() as folder, started(command, folder) as process:
        yield Receiver(process)


def _build(answer_after_ms: float) -> web.Application:
    received = Received()

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        received.last_at = time.monotonic()
        received.first_at = received.first_at or received.last_at
        received.count += 1
        received.body_bytes += len(body)
        if answer_after_ms:
            await asyncio.sleep(answer_after_ms / 1e3)
        return web.Response(body=_ANSWER, content_type="application/json")

    async def grant(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=_ACCESS_TOKEN, content_type="application/json")

    async def tell(_: web.Request) -> web.Response:
        fields = {name: getattr(received, name) for name in Received.__slots__}
        return web.json_response(fields)

    app = web.Application()
    app.router.add_get("/received", tell)
    app.router.add_post("/token", grant)
    app.router.add_post("/{path:.*}", take)
    return app


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ready-file", type=Path, required=True)
    parser.add_argument("--answer-after-ms", type=float, default=0.0)
    options = parser.parse_args()
    listener = listening_socket()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def say_ready(_: str) -> None:
        options.ready_file.write_text(json.dumps({"url": url, "pid": os.getpid()}))

    web.run_app(
        _build(options.answer_after_ms),
        sock=listener,
        access_log=None,
        print=say_ready,
        loop=new_event_loop(),
        shutdown_timeout=0.1,
    )


if __name__ == "__main__":
    main()
