"""Topics of generation 1.x over one socket: subscribe, publish, acknowledge.

A publication has no answer of its own. A ping follows it: its pong says that the bridge has the message.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import orjson

from bridge_server.client.session.errors import BridgeUnreachableError, RequestRefusedError
from bridge_server.client.session.line import TOO_LARGE, Line

_QUERY = "protocol=wc&version=1&env=python"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Publication:
    """A publication without its pong."""

    frame: str
    repeatable: bool
    posted: bool = False
    confirmed: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class TopicClient:
    """The frames of generation 1.x on a line; `heard` is called with the payload of each message."""

    def __init__(
        self, line: Line, heard: Callable[[str], None], failed: Callable[[RequestRefusedError], None]
    ) -> None:
        self._line = line
        self._heard = heard
        self._failed = failed
        self._subscribed: list[str] = []
        self._unconfirmed: dict[int, _Publication] = {}
        self._numbers = count(1)

    def subscribe(self, topic: str) -> None:
        """Subscribe to a topic on this connection and every later one."""
        self._subscribed.append(topic)
        self._line.post(_frame(topic, "sub"))

    async def publish(self, topic: str, payload: str, *, silent: bool, repeatable: bool = True) -> None:
        """Publish and wait for the pong. After a lost connection it is published again, if `repeatable`.

        Raises BridgeUnreachableError when it is not `repeatable` and the bridge may have taken it.
        """
        number = next(self._numbers)
        publication = _Publication(_frame(topic, "pub", payload, silent), repeatable)
        self._unconfirmed[number] = publication
        if self._line.is_open:
            self._post(number, publication)
        try:
            await publication.confirmed
        finally:
            del self._unconfirmed[number]

    def address(self) -> str:
        return f"{self._line.url}?{_QUERY}"

    def opened(self) -> None:
        for topic in self._subscribed:
            self._line.post(_frame(topic, "sub"))
        for number, publication in self._unconfirmed.items():
            self._post(number, publication)

    def received(self, text: str) -> None:
        try:
            frame = orjson.loads(text)
            topic, payload = frame["topic"], frame["payload"]
        except (ValueError, TypeError, KeyError):
            _log.warning("the bridge sent a frame that is no message")
            return
        if topic in self._subscribed:
            self._heard(payload)
        self._line.post(_frame(topic, "ack"))

    def ponged(self, data: bytes) -> None:
        publication = self._unconfirmed.get(int(data)) if data.isdigit() else None
        if publication is not None:
            _settle(publication)

    def lost(self, code: int | None) -> None:
        posted = [each for each in self._unconfirmed.values() if each.posted]
        if code == TOO_LARGE and posted:
            largest = max(posted, key=lambda publication: len(publication.frame))
            _settle(largest, RequestRefusedError(TOO_LARGE, "the message is larger than the bridge takes"))
        for publication in posted:
            publication.posted = False
            if not publication.repeatable:
                text = "The connection broke off. The bridge may have taken the message."
                _settle(publication, BridgeUnreachableError(text))

    def refused(self, error: RequestRefusedError) -> None:
        self._failed(error)
        for publication in self._unconfirmed.values():
            _settle(publication, error)

    def _post(self, number: int, publication: _Publication) -> None:
        publication.posted = True
        self._line.post(publication.frame)
        self._line.post(b"%d" % number)


def _frame(topic: Any, kind: str, payload: str = "", silent: bool = True) -> str:
    return orjson.dumps({"topic": topic, "type": kind, "payload": payload, "silent": silent}).decode()


def _settle(publication: _Publication, error: Exception | None = None) -> None:
    if publication.confirmed.done():
        return
    if error is None:
        publication.confirmed.set_result(None)
    else:
        publication.confirmed.set_exception(error)
