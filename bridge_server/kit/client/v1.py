"""Generation 1.x: topics over a WebSocket, one key for the whole session (docs/connect.md)."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from itertools import count
from secrets import token_bytes
from typing import Any
from uuid import uuid4

import aiohttp
import orjson

from bridge_server.kit.client.errors import (
    BadPayloadError,
    BridgeUnreachableError,
    Pace,
    RejectedError,
    RequestRefusedError,
    SessionEndedError,
    UnsupportedError,
)
from bridge_server.kit.client.pairing import KEY_BYTES, Cipher, Pairing
from bridge_server.kit.client.payloads import (
    Approval,
    Call,
    Event,
    PayloadIds,
    Proposal,
    Push,
    peer_metadata,
    read_approval,
    read_request,
    write_approval,
    write_error,
    write_request,
    write_result,
)
from bridge_server.kit.client.websocket import TOO_LARGE, Conversation, Line

ENDED = {"approved": False, "chainId": None, "networkId": None, "accounts": None}
"""The parameter of the `wc_sessionUpdate` that ends a session."""

_HANDSHAKE = "wc_sessionRequest"
_SERVER_ERROR = -32_000
_QUERY = "protocol=wc&version=1&env=python"
_SIGNING = frozenset(
    {
        "eth_sendTransaction",
        "eth_signTransaction",
        "eth_sign",
        "eth_signTypedData",
        "eth_signTypedData_v1",
        "eth_signTypedData_v2",
        "eth_signTypedData_v3",
        "eth_signTypedData_v4",
        "personal_sign",
        "wallet_addEthereumChain",
        "wallet_switchEthereumChain",
        "wallet_getPermissions",
        "wallet_requestPermissions",
        "wallet_registerOnboarding",
        "wallet_watchAsset",
        "wallet_scanQRCode",
    }
)

_log = logging.getLogger(__name__)


class SocketDapp:
    """A dapp whose `open` publishes a session request."""

    def __init__(
        self, bridge_url: str, name: str, url: str, http: aiohttp.ClientSession | None, pace: Pace
    ) -> None:
        self.pairing = Pairing(bridge_url, str(uuid4()), token_bytes(KEY_BYTES), name)
        self._session = SocketSession(self.pairing, http, pace, self._requested, self._responded)
        self._introduction = {**peer(self._session.client_id, name, url), "chainId": None}
        self._handshake_id = self._session.ids.next()

    @property
    def uri(self) -> str:
        """The URI that a wallet scans."""
        return self.pairing.wc_uri

    async def open(self) -> None:
        """Publish the session request. Raises BridgeUnreachableError, RequestRefusedError."""
        self._session.open()
        async with self._session.line.patiently("The bridge opened no session"):
            topic, asked = self.pairing.session_id, [self._introduction]
            await self._session.request(topic, _HANDSHAKE, asked, self._handshake_id)

    async def close(self) -> None:
        """Close the connection."""
        await self._session.line.close()

    def within(self, seconds: float | None, missing: str) -> AbstractAsyncContextManager[None]:
        """Limit the time of the block."""
        return self._session.line.within(seconds, missing)

    async def approval(self, timeout: float | None) -> Approval:
        """Wait for the wallet's approval."""
        async with self.within(timeout, "The wallet did not answer"):
            return await self._session.conversation.approval_given()

    async def request(self, method: str, params: Any, timeout: float | None, chain: str | None) -> str:
        """Wait for the approval, and publish a call; returns its id."""
        if chain is not None:
            raise UnsupportedError("A session of generation 1.x has one chain, the wallet's: name none.")
        async with self._session.line.bridge_within(timeout, "The bridge did not take the call"):
            await self._session.conversation.approval_given()
            topic = self._session.peer_id or ""
            return str(await self._session.request(topic, method, params, repeatable=False))

    async def result(self, call_id: str, timeout: float | None) -> Any:
        """Wait for the answer to a call."""
        async with self.within(timeout, f"The wallet did not answer the call {call_id}"):
            return await self._session.conversation.result_of(call_id)

    async def end(self) -> None:
        """End the session and tell the wallet."""
        async with self._session.line.patiently("The bridge did not end the session"):
            await self._session.end()

    async def ping(self, timeout: float | None) -> None:
        """Generation 1.x has no ping."""
        raise UnsupportedError("Generation 1.x has no ping between the two sides.")

    def updates(self) -> AsyncGenerator[Approval, None]:
        """Yield the wallet's updates as they arrive, until the session ends."""
        return self._session.conversation.next_updates()

    def events(self) -> AsyncGenerator[Event, None]:
        """Generation 1.x has no events."""
        raise UnsupportedError("Generation 1.x has no events: `approval` has the last update.")

    def _requested(self, content: dict[str, Any]) -> None:
        """Handle an update of the wallet."""
        if content["method"] == "wc_sessionUpdate":
            try:
                self._session.conversation.approved(read_approval(first_parameter(content)))
            except RejectedError:
                self._session.conversation.fail(SessionEndedError("The wallet ended the session."))

    def _responded(self, content: dict[str, Any]) -> None:
        """Handle the answer to the session request, or to a call."""
        if content.get("id") == self._handshake_id:
            self._approved(content)
        else:
            self._session.conversation.answered(str(content.get("id")), content)

    def _approved(self, content: dict[str, Any]) -> None:
        if self._session.peer_id is not None:  # it came before
            return
        try:
            approval = read_approval(_result(content))
        except RejectedError as rejection:
            self._session.conversation.fail(rejection)
            return
        peer_id = approval.content.get("peerId")
        if not isinstance(peer_id, str) or not peer_id:
            raise BadPayloadError("The approval has no peerId.")
        self._session.peer_id = peer_id
        self._session.conversation.approved(approval)


def _result(content: dict[str, Any]) -> Any:
    """The result in a response to the session request. Raises RejectedError for an error."""
    error = content.get("error")
    if isinstance(error, dict):
        raise RejectedError(str(error.get("message") or "The wallet does not approve the session."))
    return content.get("result")


class SocketWallet:
    """A wallet that has scanned a pairing URI of generation 1.x."""

    def __init__(
        self, pairing: Pairing, name: str, url: str, http: aiohttp.ClientSession | None, pace: Pace
    ) -> None:
        self.pairing = pairing
        self._session = SocketSession(pairing, http, pace, self._requested, _ignore)
        self._introduction = peer(self._session.client_id, name, url)
        self._handshake: int | str | None = None
        self._answered = False

    @property
    def topic(self) -> str:
        """The topic of this side's id."""
        return self._session.client_id

    async def open(self) -> None:
        """Listen for the session request, in the background."""
        self._session.open(self.pairing.session_id)

    async def close(self) -> None:
        """Close the connection."""
        await self._session.line.close()

    async def proposal(self, timeout: float | None) -> Proposal:
        """Wait for the dapp's session request."""
        async with self._session.line.within(timeout, "The dapp did not ask for a session"):
            return await self._session.conversation.proposal_made()

    async def approve(self, accounts: Iterable[str], chain_id: int, push: Push | None) -> int | None:
        """Answer the session request; after that, publish an update."""
        if push is not None:
            raise UnsupportedError("Generation 1.x registers webhooks with POST /subscribe, not here.")
        said = status(accounts, chain_id)
        await self.proposal(self._session.line.pace.patience_seconds)
        async with self._session.line.patiently("The bridge did not take the wallet's word"):
            # The dapp's first call may come before the bridge has confirmed the approval.
            self._session.conversation.approved(read_approval(said))
            if self._answered:
                await self._session.update(said)
            else:
                result = {**said, **self._introduction}
                await self._session.respond({"id": self._handshake, "jsonrpc": "2.0", "result": result})
        self._answered = True
        return None

    async def reject(self) -> None:
        """Answer the session request with an error, and end the session."""
        await self.proposal(self._session.line.pace.patience_seconds)
        async with self._session.line.patiently("The bridge did not take the wallet's word"):
            await self._session.respond(write_error(self._handshake, _SERVER_ERROR, "Session Rejected"))
        self._session.conversation.fail(SessionEndedError("This side rejected the session."))

    def calls(self) -> AsyncGenerator[Call, None]:
        """Yield the calls as they arrive, until the session ends."""
        return self._session.conversation.next_calls()

    async def call(self, call_id: str) -> Call:
        """A received call."""
        return self._session.conversation.call(call_id)

    async def answer(self, call: Call, result: Any) -> None:
        """Answer a call with its result."""
        await self._respond(write_result(call, result))

    async def refuse(self, call: Call, code: int, message: str) -> None:
        """Answer a call with an error."""
        await self._respond(write_error(call.request_id, code, message))

    async def end(self) -> None:
        """End the session and tell the dapp."""
        async with self._session.line.patiently("The bridge did not end the session"):
            await self._session.end()

    async def emit(self, name: str, data: Any, chain: str) -> None:
        """Generation 1.x has no events."""
        raise UnsupportedError("Generation 1.x has no events: approve again with what has changed.")

    async def extend(self) -> int:
        """A session of generation 1.x does not expire."""
        raise UnsupportedError("A session of generation 1.x does not expire.")

    async def ping(self, timeout: float | None) -> None:
        """Generation 1.x has no ping."""
        raise UnsupportedError("Generation 1.x has no ping between the two sides.")

    async def _respond(self, content: dict[str, Any]) -> None:
        async with self._session.line.patiently("The bridge did not take the answer"):
            await self._session.respond(content)

    def _requested(self, content: dict[str, Any]) -> None:
        match content["method"]:
            case "wc_sessionRequest":
                self._proposed(content)
            case "wc_sessionUpdate":
                if first_parameter(content).get("approved") is not True:
                    self._session.conversation.fail(SessionEndedError("The dapp ended the session."))
            case _:
                call = read_request(str(content.get("id")), content)
                if self._session.conversation.approval is not None:
                    self._session.conversation.called(call)

    def _proposed(self, content: dict[str, Any]) -> None:
        if self._session.peer_id is None:
            proposal, self._session.peer_id = read_proposal(content)
            self._handshake = read_request("", content).request_id
            self._session.conversation.proposed(proposal)


def _ignore(_: dict[str, Any]) -> None:
    """Ignore a response. The dapp does not answer updates of the session."""


class SocketSession:
    """Encrypted JSON-RPC; `requested` and `responded` are called with the messages of the other side."""

    def __init__(
        self,
        pairing: Pairing,
        http: aiohttp.ClientSession | None,
        pace: Pace,
        requested: Callable[[dict[str, Any]], None],
        responded: Callable[[dict[str, Any]], None],
    ) -> None:
        self.pairing = pairing
        self.client_id = str(uuid4())
        self.peer_id: str | None = None
        self.conversation = Conversation()
        self.line = Line(pairing.bridge_url, http, pace)
        self._topics = TopicClient(self.line, self._heard, self.conversation.fail)
        self._cipher = SocketCipher(pairing.key)
        self._requested = requested
        self._responded = responded
        self.ids = PayloadIds()

    def open(self, *topics: str) -> None:
        """Connect, and subscribe to this side's topic and to others."""
        self.line.open(self._topics)
        for topic in (self.client_id, *topics):
            self._topics.subscribe(topic)

    async def request(
        self, topic: str, method: str, params: Any, request_id: int | None = None, *, repeatable: bool = True
    ) -> int:
        """Publish a JSON-RPC request; returns its id. Raises TypeError if `params` is not JSON."""
        request_id = request_id or self.ids.next()
        self.conversation.ask(str(request_id))
        content = write_request(request_id, method, params)
        await self._topics.publish(
            topic, self._sealed(content), silent=is_silent(method), repeatable=repeatable
        )
        return request_id

    async def respond(self, content: dict[str, Any]) -> None:
        """Publish a JSON-RPC response to the other side."""
        await self._topics.publish(self._peer(), self._sealed(content), silent=True)

    async def update(self, status: dict[str, Any]) -> None:
        """Publish an update of the session."""
        await self.request(self._peer(), "wc_sessionUpdate", [status])

    async def end(self) -> None:
        """End the session, and tell the other side if there is one."""
        if self.peer_id is not None and self.conversation.failure is None:
            await self.update(ENDED)
        self.conversation.fail(SessionEndedError("This side ended the session."))

    def _peer(self) -> str:
        self.conversation.require_open()
        if self.peer_id is None:
            raise SessionEndedError("There is no session yet: the dapp has not asked for one.")
        return self.peer_id

    def _sealed(self, content: dict[str, Any]) -> str:
        return orjson.dumps(self._cipher.seal(content)).decode()

    def _heard(self, payload: str) -> None:
        """Handle a message. A message that cannot be read is logged and ignored."""
        try:
            content = self._cipher.open(payload)
            if not isinstance(content, dict):
                raise BadPayloadError("The message is no JSON object.")
            (self._requested if "method" in content else self._responded)(content)
        except BadPayloadError as error:
            _log.warning("a message cannot be read: %s", error)


# Topics of generation 1.x over one socket: subscribe, publish, acknowledge.
#
# A publication has no answer of its own. A ping follows it: its pong says that the bridge has the message.


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


# The encryption of generation 1.x.
#
# Source: `encrypt` and `decrypt` of the published @walletconnect/iso-crypto 1.8.0. AES-256-CBC over the JSON
# text of the content, then HMAC-SHA256 with the same key over the *bytes* of ciphertext and IV.


class SocketCipher(Cipher):
    """Encrypts and decrypts payloads with the key of one session of generation 1.x."""

    def _text(self, content: Any) -> bytes:
        return orjson.dumps(content)

    def _content(self, text: bytes) -> Any:
        return orjson.loads(text)

    def _authenticated(self, data: str, iv: bytes) -> bytes:
        return bytes.fromhex(data) + iv


# The JSON-RPC messages of generation 1.x, as @walletconnect/client 1.8.0 writes them.


def is_silent(method: str) -> bool:
    """Whether a call triggers no webhook: true for methods that need no confirmation by the user."""
    return method not in _SIGNING


def peer(peer_id: str, name: str, url: str) -> dict[str, Any]:
    """The topic and the metadata of one side."""
    return {"peerId": peer_id, "peerMeta": peer_metadata(name, url)}


def status(accounts: Iterable[str], chain_id: int) -> dict[str, Any]:
    """The wallet's accounts and chain. Raises TypeError if `accounts` is not a list of strings."""
    return {**write_approval(accounts, chain_id), "networkId": 0, "rpcUrl": ""}


def read_proposal(content: dict[str, Any]) -> tuple[Proposal, str]:
    """Read a `wc_sessionRequest`; returns the proposal and the dapp's topic. Raises BadPayloadError."""
    asked = first_parameter(content)
    peer_id, meta = asked.get("peerId"), asked.get("peerMeta")
    if not isinstance(peer_id, str) or not peer_id:
        raise BadPayloadError("The session request has no peerId.")
    known = meta if isinstance(meta, dict) else {}
    return Proposal(str(known.get("name") or ""), str(known.get("url") or ""), asked), peer_id


def first_parameter(content: dict[str, Any]) -> dict[str, Any]:
    """The object in `params`. Raises BadPayloadError."""
    match content.get("params"):
        case [dict(parameter), *_]:
            return parameter
        case _:
            raise BadPayloadError("The message has no object in params.")
