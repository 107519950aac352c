"""Shared by dapp and wallet of generation 2.x: the session, its calls of the relay, the client id."""

import asyncio
import logging
import random
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from hashlib import sha256
from secrets import randbelow, token_hex
from typing import Any
from urllib.parse import urlencode

import orjson
from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa

from bridge_server.kernel import base64url
from bridge_server.kernel.version import USER_AGENT
from bridge_server.kit.client.errors import BadPayloadError, RequestRefusedError, SessionEndedError
from bridge_server.kit.client.payloads import read_object, write_request
from bridge_server.kit.client.v2_protocol import (
    REQUESTS,
    RESPONSES,
    SESSION_SECONDS,
    OwnResponses,
    PeerResponses,
    PublishOptions,
    TopicKey,
)
from bridge_server.kit.client.websocket import TOO_LARGE, Line, Pending, SocketSide

_USER_DISCONNECTED = {"code": 6000, "message": "User disconnected."}
_SEEN = 1_000
_SERVER_ERROR = -32_000

_MULTICODEC_ED25519 = bytes.fromhex("ed01")
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_HEADER = {"alg": "EdDSA", "typ": "JWT"}
_TOKEN_SECONDS = 24 * 3_600

_log = logging.getLogger(__name__)

Hear = Callable[[dict[str, Any]], None]
"""Handles the content of a message."""


class RelaySession(SocketSide, ABC):
    """JSON-RPC on the session's topic, and the calls of one client of a relay."""

    def __init__(self, line: Line, project_id: str | None) -> None:
        super().__init__(line)
        self.key: TopicKey | None = None
        self.expires_s: int | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._client_id = ClientId()
        self._project_id = project_id
        self._calls: dict[int, Pending] = {}
        self._topics: dict[str, tuple[TopicKey | OwnResponses, Hear]] = {}
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._resubscribing: asyncio.Task[None] | None = None

    @abstractmethod
    def requested(self, content: dict[str, Any]) -> None:
        """Handle a request that only the other side makes. Raises BadPayloadError."""

    async def close(self) -> None:
        """Wait a moment for publications in the background, and close the connection."""
        if self._tasks and self.line.is_open:
            await asyncio.wait(self._tasks, timeout=1.0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.line.close()

    async def ask(self, method: str, params: Any) -> str:
        """Publish a request on the session's topic; returns its id. Raises TypeError, SessionEndedError."""
        request_id = self.ids.next()
        self.conversation.ask(str(request_id))
        await self.publish(self.open_key(), write_request(request_id, method, params), REQUESTS[method])
        return str(request_id)

    async def respond(self, request_id: Any, result: Any, method: str = "wc_sessionRequest") -> None:
        """Publish the result of a request."""
        content = {"id": request_id, "jsonrpc": "2.0", "result": result}
        await self.publish(self.open_key(), content, RESPONSES[method])

    async def respond_error(self, request_id: Any, code: int, message: str) -> None:
        """Publish the error of a call."""
        content = failed(request_id, code, message)
        await self.publish(self.open_key(), content, RESPONSES["wc_sessionRequest"])

    async def ping(self, timeout: float | None) -> None:
        async with self.line.within(timeout, "The other side did not answer the ping"):
            await self.conversation.result_of(await self.ask("wc_sessionPing", {}))

    async def end(self) -> None:
        """End the session, tell the other side, and unsubscribe from the topic."""
        async with self.line.patiently("The relay did not end the session"):
            if self.conversation.failure is None and self.key is not None:
                await self.ask("wc_sessionDelete", _USER_DISCONNECTED)
                await self.unsubscribe(self.key)
            self.conversation.fail(SessionEndedError("This side ended the session."))

    def renew(self) -> int:
        """Renew the session's lifetime; returns its expiry in seconds since the epoch."""
        self.expires_s = int(time.time()) + SESSION_SECONDS
        return self.expires_s

    def heard(self, content: dict[str, Any]) -> None:
        """Handle a message of the session's topic. Raises BadPayloadError."""
        request_id = content.get("id")
        match content.get("method"):
            case None:
                self.conversation.answered(str(request_id), content)
            case "wc_sessionPing":
                self.confirm(request_id, "wc_sessionPing")
            case "wc_sessionExtend":
                self.renew()
                self.confirm(request_id, "wc_sessionExtend")
            case "wc_sessionDelete":
                self.conversation.fail(SessionEndedError("The other side ended the session."))
                if self.key is not None:
                    self.in_background(self.unsubscribe(self.key))
            case _:
                self.requested(content)

    def confirm(self, request_id: Any, method: str) -> None:
        """Answer a request with `true`, in the background."""
        self.in_background(self.respond(request_id, True, method))

    def in_background(self, work: Coroutine[Any, Any, object]) -> None:
        """Run a publication as a task. An error is logged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.warning("a message could not be published: %s", error)

    def open_key(self) -> TopicKey:
        """The key of the open session. Raises the error that ended it."""
        self.conversation.require_open()
        if self.key is None:
            raise SessionEndedError("There is no session yet: the wallet has approved none.")
        if self.expires_s is not None and self.expires_s < time.time():
            raise SessionEndedError("The session has expired. Pair again.")
        return self.key

    # The relay's JSON-RPC (`irn_*` and `wc_*`). A call without an answer is sent again with its id on each
    # new connection: the relay accepts an id once. Each topic has its key and a handler of its messages.

    def listen(self, key: TopicKey | OwnResponses, heard: Hear) -> None:
        """Handle the messages of a topic. Each later connection subscribes to it."""
        self._topics[key.topic] = (key, heard)

    def subscribe(self, key: TopicKey | OwnResponses, heard: Hear) -> Coroutine[Any, Any, object]:
        """Subscribe to a topic, on this connection and every later one. Raises RequestRefusedError.

        Its messages are handled from now on: the first may arrive before the relay's answer.
        """
        self.listen(key, heard)
        return self.call_relay("irn_subscribe", {"topic": key.topic})

    async def unsubscribe(self, key: TopicKey) -> None:
        """Unsubscribe from a topic. Raises RequestRefusedError."""
        if self._topics.pop(key.topic, None) is not None:
            await self.call_relay("irn_unsubscribe", {"topic": key.topic, "id": key.topic})

    async def publish(self, key: TopicKey | PeerResponses, content: Any, how: PublishOptions) -> None:
        """Publish a message. Raises RequestRefusedError; TypeError if `content` is not JSON."""
        parameters = {"topic": key.topic, "message": key.seal(content), "ttl": how.ttl, "tag": how.tag}
        await self.call_relay("irn_publish", {**parameters, "prompt": how.prompt})

    async def call_relay(self, method: str, parameters: dict[str, Any]) -> Any:
        """Call the relay, on every connection until it answers; its result. Raises RequestRefusedError."""
        call_id = time.time_ns() // 1_000_000 * 1_000_000 + randbelow(1_000_000)
        call = self._calls[call_id] = Pending(_frame(call_id, method=method, params=parameters))
        self.line.post(call.frame)
        try:
            return await call.answer
        finally:
            del self._calls[call_id]

    def address(self) -> str:
        query = {"auth": self._client_id.token(self.line.url, int(time.time())), "ua": USER_AGENT}
        if self._project_id is not None:
            query["projectId"] = self._project_id
        return f"{self.line.url}?{urlencode(query)}"

    def opened(self) -> None:
        self._resubscribing = asyncio.create_task(self._resubscribe())
        for call in self._calls.values():
            self.line.post(call.frame)

    def received(self, text: str) -> None:
        content = read_object(text)
        if content is None:
            _log.warning("the relay sent a frame that is no JSON object")
        elif "method" in content:
            self._delivered(content)
        else:
            self._relay_answered(content)

    def ponged(self, data: bytes) -> None:
        """Pongs are ignored: every call has an answer."""

    def lost(self, code: int | None) -> None:
        if self._resubscribing is not None:
            self._resubscribing.cancel()
        if code == TOO_LARGE and self._calls:
            largest = max(self._calls.values(), key=lambda call: len(call.frame))
            largest.settle(RequestRefusedError(TOO_LARGE, "the message is larger than the relay takes"))

    def refused(self, error: RequestRefusedError) -> None:
        self.conversation.fail(error)
        for call in self._calls.values():
            call.settle(error)

    async def _resubscribe(self) -> None:
        """Subscribe to every topic again. A refusal is retried: a limit may be reached only for a while."""
        failures = 0
        while self._topics:
            try:
                await self.call_relay("irn_batchSubscribe", {"topics": list(self._topics)})
            except RequestRefusedError as refusal:
                failures += 1
                _log.warning("the relay refused to subscribe this client again: %s", refusal)
                await asyncio.sleep(self.line.pace.retry_seconds(failures, random.random()))  # noqa: S311
            else:
                return

    def _relay_answered(self, content: dict[str, Any]) -> None:
        call_id = content.get("id")
        call = self._calls.get(call_id) if isinstance(call_id, int) else None
        if call is None:
            return
        error = content.get("error")
        if isinstance(error, dict):
            code = error.get("code")
            known = code if isinstance(code, int) else _SERVER_ERROR
            call.settle(RequestRefusedError(known, str(error.get("message", ""))))
        else:
            call.settle(content.get("result"))

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
        self.line.post(_frame(content.get("id"), result=True))

    def _is_new(self, topic: str, message: str) -> bool:
        """Whether the message is new: a relay sends a message again until it is acknowledged."""
        digest = sha256(f"{topic} {message}".encode()).digest()
        if digest in self._seen:
            return False
        self._seen[digest] = None
        if len(self._seen) > _SEEN:
            self._seen.popitem(last=False)
        return True


def _hear(key: TopicKey | OwnResponses, heard: Hear, message: object) -> None:
    try:
        content = key.open(message)
        if not isinstance(content, dict):
            raise BadPayloadError("The message is no JSON object.")
        heard(content)
    except BadPayloadError as error:
        _log.warning("a message cannot be read: %s", error)


def failed(request_id: Any, code: int, message: str) -> dict[str, Any]:
    """A JSON-RPC error response."""
    return {"id": request_id, "jsonrpc": "2.0", "error": {"code": code, "message": message}}


def parameters(content: dict[str, Any]) -> dict[str, Any]:
    """The object in a request's `params`. Raises BadPayloadError."""
    found = content.get("params")
    if not isinstance(found, dict):
        raise BadPayloadError(f"The parameters of {content.get('method')} must be an object.")
    return found


def _frame(frame_id: Any, **members: Any) -> str:
    return orjson.dumps({"id": frame_id, "jsonrpc": "2.0", **members}).decode()


# A client's identity at a relay: an Ed25519 key, its did:key, and the token that proves it.
#
# Sources: the did:key method (W3C), RFC 7519, RFC 8037; `signJWT` of the published @walletconnect/relay-auth.


class ClientId:
    """The identity of a client, which a relay recognizes on every connection."""

    def __init__(self, seed: bytes | None = None) -> None:
        curve = "Ed25519"
        self._key = ECC.generate(curve=curve) if seed is None else ECC.construct(curve=curve, seed=seed)
        public: bytes = self._key.public_key().export_key(format="raw")
        self.did = "did:key:z" + base58(_MULTICODEC_ED25519 + public)

    def token(self, relay_url: str, now_s: int) -> str:
        """A JSON Web Token for a connection to the relay, valid for a day."""
        times = {"iat": now_s, "exp": now_s + _TOKEN_SECONDS}
        claims = {"iss": self.did, "sub": token_hex(32), "aud": relay_url, **times}
        signed = ".".join(base64url.encode(orjson.dumps(part)) for part in (_HEADER, claims))
        signature = eddsa.new(self._key, "rfc8032").sign(signed.encode())
        return f"{signed}.{base64url.encode(signature)}"


def base58(data: bytes) -> str:
    """The bytes in base58btc, without the prefix of multibase."""
    number, digits = int.from_bytes(data), ""
    while number:
        number, digit = divmod(number, len(_BASE58))
        digits = _BASE58[digit] + digits
    zeros = len(data) - len(data.lstrip(b"\0"))
    return _BASE58[0] * zeros + digits
