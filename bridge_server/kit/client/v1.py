"""Generation 1.x: topics over a WebSocket, one key for the whole session (docs/connect.md)."""

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
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
    Call,
    Event,
    Proposal,
    Push,
    peer_metadata,
    read_approval,
    read_metadata,
    read_request,
    rejection_of,
    write_approval,
    write_error,
    write_request,
    write_result,
)
from bridge_server.kit.client.websocket import TOO_LARGE, Line, Pending, SocketSide

ENDED = {"approved": False, "chainId": None, "networkId": None, "accounts": None}
"""The parameter of the `wc_sessionUpdate` that ends a session."""

_HANDSHAKE = "wc_sessionRequest"
_SERVER_ERROR = -32_000
_NOT_TAKEN = "The bridge did not take the answer"
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


@dataclass(slots=True)
class _Publication(Pending):
    """A publication without its pong."""

    repeatable: bool = True
    posted: bool = False


class SocketSession(SocketSide, ABC):
    """Encrypted JSON-RPC between two sides, each of which has a topic on the bridge."""

    def __init__(self, pairing: Pairing, http: aiohttp.ClientSession | None, pace: Pace) -> None:
        super().__init__(Line(pairing.bridge_url, http, pace))
        self.pairing = pairing
        self.topic = str(uuid4())
        self.peer_id: str | None = None
        self._cipher = SocketCipher(pairing.key)
        self._subscribed: list[str] = []
        self._unconfirmed: dict[int, _Publication] = {}
        self._numbers = count(1)

    @abstractmethod
    def requested(self, content: dict[str, Any]) -> None:
        """Handle a request of the other side. Raises BadPayloadError."""

    @abstractmethod
    def responded(self, content: dict[str, Any]) -> None:
        """Handle a response of the other side. Raises BadPayloadError."""

    def connect(self, *topics: str) -> None:
        """Connect, and subscribe to this side's topic and to others on every connection."""
        self._subscribed += [self.topic, *topics]
        self.line.open(self)

    async def ask(
        self, topic: str, method: str, params: Any, request_id: int | None = None, *, repeatable: bool = True
    ) -> int:
        """Publish a JSON-RPC request; returns its id. Raises TypeError if `params` is not JSON."""
        request_id = request_id or self.ids.next()
        self.conversation.ask(str(request_id))
        content, silent = write_request(request_id, method, params), method not in _SIGNING
        await self._publish(topic, content, silent=silent, repeatable=repeatable)
        return request_id

    async def respond(self, content: dict[str, Any]) -> None:
        """Publish a JSON-RPC response to the other side."""
        await self._publish(self._peer(), content, silent=True)

    async def update(self, status: dict[str, Any]) -> None:
        """Publish an update of the session."""
        await self.ask(self._peer(), "wc_sessionUpdate", [status])

    async def end(self) -> None:
        """End the session, and tell the other side if there is one."""
        async with self.line.patiently("The bridge did not end the session"):
            if self.peer_id is not None and self.conversation.failure is None:
                await self.update(ENDED)
            self.conversation.fail(SessionEndedError("This side ended the session."))

    async def ping(self, timeout: float | None) -> None:
        raise UnsupportedError("Generation 1.x has no ping between the two sides.")

    def _peer(self) -> str:
        self.conversation.require_open()
        if self.peer_id is None:
            raise SessionEndedError("There is no session yet: the dapp has not asked for one.")
        return self.peer_id

    # Topics: subscribe, publish, acknowledge. A publication has no answer of its own. A ping follows it:
    # its pong says that the bridge has the message.

    async def _publish(
        self, topic: str, content: dict[str, Any], *, silent: bool, repeatable: bool = True
    ) -> None:
        """Publish and wait for the pong. After a lost connection it is published again, if `repeatable`.

        Raises BridgeUnreachableError when it is not `repeatable` and the bridge may have taken it.
        """
        payload, number = orjson.dumps(self._cipher.seal(content)).decode(), next(self._numbers)
        publication = _Publication(_frame(topic, "pub", payload, silent), repeatable=repeatable)
        self._unconfirmed[number] = publication
        if self.line.is_open:
            self._post(number, publication)
        try:
            await publication.answer
        finally:
            del self._unconfirmed[number]

    def address(self) -> str:
        return f"{self.line.url}?{_QUERY}"

    def opened(self) -> None:
        for topic in self._subscribed:
            self.line.post(_frame(topic, "sub"))
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
            try:
                content = self._cipher.open(payload)
                if not isinstance(content, dict):
                    raise BadPayloadError("The message is no JSON object.")
                (self.requested if "method" in content else self.responded)(content)
            except BadPayloadError as error:
                _log.warning("a message cannot be read: %s", error)
        self.line.post(_frame(topic, "ack"))

    def ponged(self, data: bytes) -> None:
        publication = self._unconfirmed.get(int(data)) if data.isdigit() else None
        if publication is not None:
            publication.settle()

    def lost(self, code: int | None) -> None:
        posted = [each for each in self._unconfirmed.values() if each.posted]
        if code == TOO_LARGE and posted:
            largest = max(posted, key=lambda publication: len(publication.frame))
            largest.settle(RequestRefusedError(TOO_LARGE, "the message is larger than the bridge takes"))
        for publication in posted:
            publication.posted = False
            if not publication.repeatable:
                text = "The connection broke off. The bridge may have taken the message."
                publication.settle(BridgeUnreachableError(text))

    def refused(self, error: RequestRefusedError) -> None:
        self.conversation.fail(error)
        for publication in self._unconfirmed.values():
            publication.settle(error)

    def _post(self, number: int, publication: _Publication) -> None:
        publication.posted = True
        self.line.post(publication.frame)
        self.line.post(b"%d" % number)


def _frame(topic: Any, kind: str, payload: str = "", silent: bool = True) -> str:
    return orjson.dumps({"topic": topic, "type": kind, "payload": payload, "silent": silent}).decode()


class SocketDapp(SocketSession):
    """A dapp whose `open` publishes a session request. The methods are described in `Dapp`."""

    def __init__(
        self, bridge_url: str, name: str, url: str, http: aiohttp.ClientSession | None, pace: Pace
    ) -> None:
        super().__init__(Pairing(bridge_url, str(uuid4()), token_bytes(KEY_BYTES), name), http, pace)
        self._introduction = {**peer(self.topic, name, url), "chainId": None}
        self._handshake_id = self.ids.next()

    @property
    def uri(self) -> str:
        return self.pairing.wc_uri

    async def open(self) -> None:
        self.connect()
        async with self.line.patiently("The bridge opened no session"):
            topic, asked = self.pairing.session_id, [self._introduction]
            await self.ask(topic, _HANDSHAKE, asked, self._handshake_id)

    async def request(self, method: str, params: Any, timeout: float | None, chain: str | None) -> str:
        if chain is not None:
            raise UnsupportedError("A session of generation 1.x has one chain, the wallet's: name none.")
        async with self.line.bridge_within(timeout, "The bridge did not take the call"):
            await self.conversation.approval_given()
            return str(await self.ask(self.peer_id or "", method, params, repeatable=False))

    def events(self) -> AsyncGenerator[Event, None]:
        raise UnsupportedError("Generation 1.x has no events: `approval` has the last update.")

    def requested(self, content: dict[str, Any]) -> None:
        if content["method"] == "wc_sessionUpdate":
            try:
                self.conversation.approved(read_approval(first_parameter(content)))
            except RejectedError:
                self.conversation.fail(SessionEndedError("The wallet ended the session."))

    def responded(self, content: dict[str, Any]) -> None:
        if content.get("id") == self._handshake_id:
            self._approved(content)
        else:
            self.conversation.answered(str(content.get("id")), content)

    def _approved(self, content: dict[str, Any]) -> None:
        if self.peer_id is not None:  # it came before
            return
        error = content.get("error")
        try:
            if isinstance(error, dict):
                raise RejectedError(rejection_of(error))
            approval = read_approval(content.get("result"))
        except RejectedError as rejection:
            self.conversation.fail(rejection)
            return
        peer_id = approval.content.get("peerId")
        if not isinstance(peer_id, str) or not peer_id:
            raise BadPayloadError("The approval has no peerId.")
        self.peer_id = peer_id
        self.conversation.approved(approval)


class SocketWallet(SocketSession):
    """A wallet that has scanned a pairing URI of generation 1.x. The methods are described in `Wallet`."""

    def __init__(
        self, pairing: Pairing, name: str, url: str, http: aiohttp.ClientSession | None, pace: Pace
    ) -> None:
        super().__init__(pairing, http, pace)
        self._introduction = peer(self.topic, name, url)
        self._handshake: int | str | None = None
        self._answered = False

    async def open(self) -> None:
        self.connect(self.pairing.session_id)

    async def proposal(self, timeout: float | None) -> Proposal:
        async with self.line.within(timeout, "The dapp did not ask for a session"):
            return await self.conversation.proposal_made()

    async def approve(self, accounts: Iterable[str], chain_id: int, push: Push | None) -> int | None:
        if push is not None:
            raise UnsupportedError("Generation 1.x registers webhooks with POST /subscribe, not here.")
        said = {**write_approval(accounts, chain_id), "networkId": 0, "rpcUrl": ""}
        await self.proposal(self.line.pace.patience_seconds)
        async with self.line.patiently("The bridge did not take the wallet's word"):
            # The dapp's first call may come before the bridge has confirmed the approval.
            self.conversation.approved(read_approval(said))
            if self._answered:
                await self.update(said)
            else:
                result = {**said, **self._introduction}
                await self.respond({"id": self._handshake, "jsonrpc": "2.0", "result": result})
        self._answered = True
        return None

    async def reject(self) -> None:
        await self.proposal(self.line.pace.patience_seconds)
        async with self.line.patiently("The bridge did not take the wallet's word"):
            await self.respond(write_error(self._handshake, _SERVER_ERROR, "Session Rejected"))
        self.conversation.fail(SessionEndedError("This side rejected the session."))

    async def answer(self, call: Call, result: Any) -> None:
        async with self.line.patiently(_NOT_TAKEN):
            await self.respond(write_result(call, result))

    async def refuse(self, call: Call, code: int, message: str) -> None:
        async with self.line.patiently(_NOT_TAKEN):
            await self.respond(write_error(call.request_id, code, message))

    async def emit(self, name: str, data: Any, chain: str) -> None:
        raise UnsupportedError("Generation 1.x has no events: approve again with what has changed.")

    async def extend(self) -> int:
        raise UnsupportedError("A session of generation 1.x does not expire.")

    def requested(self, content: dict[str, Any]) -> None:
        match content["method"]:
            case "wc_sessionRequest":
                if self.peer_id is None:
                    proposal, self.peer_id = read_proposal(content)
                    self._handshake = read_request("", content).request_id
                    self.conversation.proposed(proposal)
            case "wc_sessionUpdate":
                if first_parameter(content).get("approved") is not True:
                    self.conversation.fail(SessionEndedError("The dapp ended the session."))
            case _:
                call = read_request(str(content.get("id")), content)
                if self.conversation.approval is not None:
                    self.conversation.called(call)

    def responded(self, content: dict[str, Any]) -> None:
        """Ignore a response. The dapp does not answer updates of the session."""


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


def peer(peer_id: str, name: str, url: str) -> dict[str, Any]:
    """The topic and the metadata of one side."""
    return {"peerId": peer_id, "peerMeta": peer_metadata(name, url)}


def read_proposal(content: dict[str, Any]) -> tuple[Proposal, str]:
    """Read a `wc_sessionRequest`; returns the proposal and the dapp's topic. Raises BadPayloadError."""
    asked = first_parameter(content)
    peer_id = asked.get("peerId")
    if not isinstance(peer_id, str) or not peer_id:
        raise BadPayloadError("The session request has no peerId.")
    return Proposal(*read_metadata(asked.get("peerMeta")), asked), peer_id


def first_parameter(content: dict[str, Any]) -> dict[str, Any]:
    """The object in `params`. Raises BadPayloadError."""
    match content.get("params"):
        case [dict(parameter), *_]:
            return parameter
        case _:
            raise BadPayloadError("The message has no object in params.")
