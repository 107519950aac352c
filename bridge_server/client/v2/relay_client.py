"""A relay's JSON-RPC (`irn_*` and `wc_*`) over one socket, for one client id.

A call without an answer is sent again with its id on each new connection: the relay accepts an id once.
"""

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import randbelow
from typing import Any
from urllib.parse import urlencode

import orjson

from bridge_server.client.session.errors import BadPayloadError, RequestRefusedError
from bridge_server.client.session.line import TOO_LARGE, Line
from bridge_server.client.v2.client_id import ClientId
from bridge_server.client.v2.envelope import OwnResponses, PeerResponses, TopicKey
from bridge_server.client.v2.methods import PublishOptions
from bridge_server.version import USER_AGENT

_SEEN = 1_000
_SERVER_ERROR = -32_000

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Call:
    """A call to the relay without its answer."""

    frame: str
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class RelayClient:
    """The calls of one client on a line. Each topic has its key and a handler of its messages."""

    def __init__(
        self, line: Line, project_id: str | None, failed: Callable[[RequestRefusedError], None]
    ) -> None:
        self._line = line
        self._client_id = ClientId()
        self._project_id = project_id
        self._failed = failed
        self._calls: dict[int, _Call] = {}
        self._topics: dict[str, tuple[TopicKey | OwnResponses, Callable[[dict[str, Any]], None]]] = {}
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._resubscribing: asyncio.Task[None] | None = None

    def listen(self, key: TopicKey | OwnResponses, heard: Callable[[dict[str, Any]], None]) -> None:
        """Handle the messages of a topic. Each later connection subscribes to it."""
        self._topics[key.topic] = (key, heard)

    def subscribe(
        self, key: TopicKey | OwnResponses, heard: Callable[[dict[str, Any]], None]
    ) -> Coroutine[Any, Any, object]:
        """Subscribe to a topic, on this connection and every later one. Raises RequestRefusedError.

        Its messages are handled from now on: the first may arrive before the relay's answer.
        """
        self.listen(key, heard)
        return self.call("irn_subscribe", {"topic": key.topic})

    async def unsubscribe(self, key: TopicKey) -> None:
        """Unsubscribe from a topic. Raises RequestRefusedError."""
        if self._topics.pop(key.topic, None) is not None:
            await self.call("irn_unsubscribe", {"topic": key.topic, "id": key.topic})

    async def publish(self, key: TopicKey | PeerResponses, content: Any, how: PublishOptions) -> None:
        """Publish a message. Raises RequestRefusedError; TypeError if `content` is not JSON."""
        parameters = {"topic": key.topic, "message": key.seal(content), "ttl": how.ttl, "tag": how.tag}
        await self.call("irn_publish", {**parameters, "prompt": how.prompt})

    async def call(self, method: str, parameters: dict[str, Any]) -> Any:
        """Call the relay, on every connection until it answers; returns the result.

        Raises RequestRefusedError.
        """
        call_id = _call_id()
        call = self._calls[call_id] = _Call(_frame(call_id, method=method, params=parameters))
        self._line.post(call.frame)
        try:
            return await call.answer
        finally:
            del self._calls[call_id]

    def address(self) -> str:
        query = {"auth": self._client_id.token(self._line.url, int(time.time())), "ua": USER_AGENT}
        if self._project_id is not None:
            query["projectId"] = self._project_id
        return f"{self._line.url}?{urlencode(query)}"

    def opened(self) -> None:
        self._resubscribing = asyncio.create_task(self._resubscribe())
        for call in self._calls.values():
            self._line.post(call.frame)

    def received(self, text: str) -> None:
        try:
            content = orjson.loads(text)
        except orjson.JSONDecodeError:
            content = None
        if not isinstance(content, dict):
            _log.warning("the relay sent a frame that is no JSON object")
        elif "method" in content:
            self._delivered(content)
        else:
            self._answered(content)

    def ponged(self, data: bytes) -> None:
        """Pongs are ignored: every call has an answer."""

    def lost(self, code: int | None) -> None:
        if self._resubscribing is not None:
            self._resubscribing.cancel()
        if code == TOO_LARGE and self._calls:
            largest = max(self._calls.values(), key=lambda call: len(call.frame))
            error = RequestRefusedError(TOO_LARGE, "the message is larger than the relay takes")
            _fail(largest, error)

    def refused(self, error: RequestRefusedError) -> None:
        self._failed(error)
        for call in self._calls.values():
            _fail(call, error)

    async def _resubscribe(self) -> None:
        """Subscribe to every topic again. A refusal is retried: a limit may be reached only for a while."""
        failures = 0
        while self._topics:
            try:
                await self.call("irn_batchSubscribe", {"topics": list(self._topics)})
            except RequestRefusedError as refusal:
                failures += 1
                _log.warning("the relay refused to subscribe this client again: %s", refusal)
                await asyncio.sleep(self._line.pace.retry_seconds(failures, random.random()))  # noqa: S311
            else:
                return

    def _answered(self, content: dict[str, Any]) -> None:
        call_id = content.get("id")
        call = self._calls.get(call_id) if isinstance(call_id, int) else None
        if call is None or call.answer.done():
            return
        error = content.get("error")
        if isinstance(error, dict):
            _fail(call, _refusal(error))
        else:
            call.answer.set_result(content.get("result"))

    def _delivered(self, content: dict[str, Any]) -> None:
        """Handle a message and acknowledge it, also if it cannot be read."""
        try:
            data = content["params"]["data"]
            topic, message = data["topic"], data["message"]
        except (KeyError, TypeError):
            _log.warning("the relay sent %s, which is no message", content["method"])
            return
        listener = self._topics.get(topic) if isinstance(topic, str) else None
        if listener is not None and self._is_new(topic, message):
            _hear(*listener, message)
        self._line.post(_frame(content.get("id"), result=True))

    def _is_new(self, topic: str, message: str) -> bool:
        """Whether the message is new: a relay sends a message again until it is acknowledged."""
        digest = sha256(f"{topic} {message}".encode()).digest()
        if digest in self._seen:
            return False
        self._seen[digest] = None
        if len(self._seen) > _SEEN:
            self._seen.popitem(last=False)
        return True


def _hear(key: TopicKey | OwnResponses, heard: Callable[[dict[str, Any]], None], message: object) -> None:
    try:
        content = key.open(message)
        if not isinstance(content, dict):
            raise BadPayloadError("The message is no JSON object.")
        heard(content)
    except BadPayloadError as error:
        _log.warning("a message cannot be read: %s", error)


def _call_id() -> int:
    """A new id: milliseconds since the epoch times 10^6, plus a random number."""
    return time.time_ns() // 1_000_000 * 1_000_000 + randbelow(1_000_000)


def _frame(frame_id: Any, **members: Any) -> str:
    return orjson.dumps({"id": frame_id, "jsonrpc": "2.0", **members}).decode()


def _refusal(error: dict[str, Any]) -> RequestRefusedError:
    code = error.get("code")
    return RequestRefusedError(
        code if isinstance(code, int) else _SERVER_ERROR, str(error.get("message", ""))
    )


def _fail(call: _Call, error: RequestRefusedError) -> None:
    if not call.answer.done():
        call.answer.set_exception(error)
