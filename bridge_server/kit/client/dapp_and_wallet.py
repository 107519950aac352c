"""The generations of the protocol, and the two sides of a session in each: dapp and wallet."""

import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import aiohttp

from bridge_server.kit.client.authentication import Authentication
from bridge_server.kit.client.errors import BadPairingError, Pace, UnsupportedError
from bridge_server.kit.client.http import HttpBridge, PollingDapp, PollingWallet
from bridge_server.kit.client.pairing import Pairing, parse_pairing, sound_bridge_url, sound_name
from bridge_server.kit.client.payloads import (
    REJECTION,
    USER_REJECTED,
    Approval,
    Call,
    Event,
    Proposal,
    Push,
    peer_metadata,
)
from bridge_server.kit.client.v1 import SocketDapp, SocketWallet
from bridge_server.kit.client.v2 import RelayDapp, RelayWallet
from bridge_server.kit.client.v2_protocol import ETHEREUM, is_relay_pairing, parse_relay_pairing
from bridge_server.kit.client.websocket import Line

Generation = Literal["plain", "0.7", "1.x", "2.x"]
"""`plain` and `0.7` are both over HTTP: only the bridge's URL decides the form of its answers."""

_PATIENCE_SECONDS = 300.0
_WALLET_NAME = "Wallet"
_HTTP_OF_WEBSOCKET = {"wss://": "https://", "ws://": "http://"}


# A side in each generation. Its methods are described in `Dapp` and `Wallet`.
DappSide = PollingDapp | SocketDapp | RelayDapp
WalletSide = PollingWallet | SocketWallet | RelayWallet


class Dapp:
    """A dapp, which opens a session on entry: `async with Dapp(url, name="Example") as dapp`.

    If `bridge_url` ends in `/compat/v0.7`, wallets of generation 0.7 can scan the URI. `generation` is
    `plain` (also `0.7`) over HTTP, `1.x` or `2.x` over a WebSocket. `url` is the dapp's page, which wallets
    show. In generation 2.x `bridge_url` is the relay's, the dapp proposes `namespaces` (CAIP-25; Ethereum's
    main chain by default), and `project_id` is sent to the relay. With `authentication` the wallet is asked
    to sign in, too: see `Approval.cacaos`. With `one_click` its signature is also the approval, of the
    methods of the authentication (`wc_sessionAuthenticate`); other wallets approve `namespaces`.

    Leaving the block closes the connections; the session stays open until `end`. A client session passed as
    `http` stays open. Every method can be cancelled, and calls can be concurrent. Raises BadPairingError;
    ValueError for invalid namespaces, an invalid authentication or an unknown generation.
    """

    def __init__(
        self,
        bridge_url: str,
        *,
        name: str,
        generation: Generation = "plain",
        url: str = "",
        namespaces: Mapping[str, Any] | None = None,
        project_id: str | None = None,
        authentication: Authentication | None = None,
        one_click: bool = False,
        http: aiohttp.ClientSession | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._side: DappSide
        of_2x = (namespaces, project_id, authentication)
        if generation != "2.x" and any(option is not None for option in of_2x):
            raise ValueError("namespaces, project_id and authentication belong to generation 2.x")
        if one_click and authentication is None:
            raise ValueError("one_click needs an authentication")
        pace = pace or Pace()
        match generation:
            case "plain" | "0.7":
                bridge = HttpBridge(sound_bridge_url(bridge_url), http, pace)
                self._side = PollingDapp(bridge, sound_name(name))
            case "1.x":
                self._side = SocketDapp(bridge_url, sound_name(name), url, http, pace)
            case "2.x":
                line = Line(sound_relay_url(bridge_url), http, pace)
                metadata = peer_metadata(sound_name(name), url)
                asked = ETHEREUM if namespaces is None else namespaces
                self._side = RelayDapp(line, project_id, metadata, asked, authentication, one_click)
            case _:
                raise ValueError(f"generation must be plain, 0.7, 1.x or 2.x, not {generation!r}")

    @classmethod
    def resume(
        cls,
        pairing: Pairing | str,
        *,
        name: str | None = None,
        http: aiohttp.ClientSession | None = None,
        pace: Pace | None = None,
    ) -> Self:
        """Continue an earlier session over HTTP. Its `uri` is all that has to be stored, and it is a secret.

        `name` is required if the pairing has none. Raises BadPairingError.
        """
        known = parse_pairing(pairing) if isinstance(pairing, str) else pairing
        chosen = name or known.name
        if chosen is None:
            raise BadPairingError("The pairing has no name for the dapp: give one.")
        dapp = cls(known.bridge_url, name=chosen, http=http, pace=pace)
        bridge = HttpBridge(known.bridge_url, http, pace or Pace())
        dapp._side = PollingDapp(bridge, chosen, replace(known, name=chosen))
        return dapp

    async def __aenter__(self) -> Self:
        """Raises BridgeUnreachableError, RequestRefusedError, BadAnswerError."""
        try:
            await self._side.open()
        except BaseException:
            await self._side.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._side.close()

    @property
    def pairing(self) -> Pairing:
        """The bridge, session and key, which the wallet needs. Generation 2.x raises UnsupportedError."""
        return self._side.pairing

    @property
    def uri(self) -> str:
        """The pairing URI to show as a QR code. It is a secret: its reader can act as the wallet."""
        return self._side.uri

    async def approval(self, timeout: float | None = _PATIENCE_SECONDS) -> Approval:
        """Wait for the wallet's approval; later calls return its latest one. `timeout` is in seconds.

        Raises RejectedError, SessionEndedError, BadPayloadError, AnswerTimeoutError, BridgeUnreachableError.
        """
        async with self._side.limits.within(timeout, "The wallet did not answer"):
            return await self._side.approval()

    async def call(
        self, method: str, params: Any, timeout: float | None = _PATIENCE_SECONDS, *, chain: str | None = None
    ) -> Any:
        """Call a method of the wallet and wait for its result. `timeout` is in seconds.

        To wait beyond a restart of the program, use `request` and `result`, whose errors this also raises.
        """
        async with self._side.limits.within(timeout, f"The wallet did not answer the call of {method}"):
            call_id = await self.request(method, params, timeout=None, chain=chain)
            return await self._side.result(call_id)

    async def request(
        self, method: str, params: Any, timeout: float | None = _PATIENCE_SECONDS, *, chain: str | None = None
    ) -> str:
        """Send a call to the wallet; returns its id. `timeout` is in seconds.

        Over a WebSocket the call waits for the wallet's approval. `chain` is the chain of a call of
        generation 2.x (CAIP-2), by default the first approved one.

        A call is never made twice: if the bridge may have accepted it, the error is BridgeUnreachableError.
        Raises SessionEndedError, RejectedError, RequestRefusedError; TypeError if `params` is not JSON.
        """
        return await self._side.request(method, params, timeout, chain)

    async def result(self, call_id: str, timeout: float | None = _PATIENCE_SECONDS) -> Any:
        """Wait for the result of a call. `timeout` is in seconds.

        Raises CallFailedError, CallExpiredError, SessionEndedError, BadPayloadError, AnswerTimeoutError,
        BridgeUnreachableError.
        """
        async with self._side.limits.within(timeout, f"The wallet did not answer the call {call_id}"):
            return await self._side.result(call_id)

    async def ping(self, timeout: float | None = _PATIENCE_SECONDS) -> None:
        """Wait for the wallet's answer to a ping of generation 2.x. `timeout` is in seconds.

        Raises UnsupportedError in other generations; SessionEndedError, AnswerTimeoutError,
        BridgeUnreachableError.
        """
        await self._side.ping(timeout)

    def updates(self) -> AsyncGenerator[Approval, None]:
        """Yield the wallet's later approvals, until the session ends. Raises UnsupportedError over HTTP."""
        return self._side.updates()

    def events(self) -> AsyncGenerator[Event, None]:
        """Yield the session's events until it ends. Raises UnsupportedError but in generation 2.x."""
        return self._side.events()

    async def end(self) -> None:
        """End the session, and its calls with it. Raises BridgeUnreachableError."""
        await self._side.end()


class Wallet:
    """A wallet in a session that a dapp has opened: `async with Wallet.from_uri(uri) as wallet`.

    `Wallet(pairing)` is for a session over HTTP, `Wallet.from_uri` for every generation. Leaving the block
    closes the connections; the session stays open until `end`. To continue a session over HTTP later, store
    the URI, which is a secret. A client session passed as `http` stays open. Every method can be cancelled.
    """

    def __init__(
        self,
        pairing: Pairing | WalletSide,
        *,
        http: aiohttp.ClientSession | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._side: WalletSide
        if isinstance(pairing, Pairing):
            self._side = PollingWallet(pairing, http, pace or Pace())
        else:
            self._side = pairing

    @classmethod
    def from_uri(
        cls,
        uri: str,
        *,
        relay_url: str | None = None,
        generation: Generation | None = None,
        name: str = _WALLET_NAME,
        url: str = "",
        project_id: str | None = None,
        http: aiohttp.ClientSession | None = None,
        pace: Pace | None = None,
    ) -> Self:
        """Make a wallet from a scanned pairing URI. Raises BadPairingError.

        The URI determines the generation: `ethereum:wc-...` is 0.7, over HTTP; `wc:...@1` is 1.x; `wc:...@2`
        is 2.x. With `generation="plain"`, a URI `wc:...@1` is read as a session over HTTP. A URI of
        generation 2.x has no relay, so `relay_url` is required. `name` and `url` introduce the wallet to the
        dapp; `project_id` is sent to the relay.
        """
        pace = pace or Pace()
        if is_relay_pairing(uri):
            _require(generation, "2.x")
            line = Line(required_relay_url(relay_url), http, pace)
            relay_pairing = parse_relay_pairing(uri)
            if relay_pairing.expires_s is not None and relay_pairing.expires_s < time.time():
                raise BadPairingError("The pairing URI has expired: the dapp must show a new one.")
            return cls(RelayWallet(relay_pairing, line, project_id, peer_metadata(name, url)))
        pairing = parse_pairing(uri)
        if uri.strip().startswith("wc:") and generation in (None, "1.x"):
            return cls(SocketWallet(pairing, name, url, http, pace))
        _require(generation, "plain", "0.7")
        return cls(PollingWallet(pairing, http, pace))

    async def __aenter__(self) -> Self:
        await self._side.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._side.close()

    @property
    def pairing(self) -> Pairing:
        """The bridge, session and key. Generation 2.x raises UnsupportedError."""
        return self._side.pairing

    @property
    def topic(self) -> str:
        """The topic on which calls arrive, for `POST /subscribe` and the push server.

        In generation 2.x it is known after the approval; before that it raises SessionEndedError.
        """
        return self._side.topic

    async def proposal(self, timeout: float | None = _PATIENCE_SECONDS) -> Proposal:
        """Wait for the dapp's proposal of a session. `timeout` is in seconds.

        Raises SessionEndedError, AnswerTimeoutError, BridgeUnreachableError, RequestRefusedError.
        """
        return await self._side.proposal(timeout)

    async def approve(
        self,
        accounts: Iterable[str],
        *,
        chain_id: int = 1,
        push: Push | None = None,
        cacaos: Sequence[Mapping[str, Any]] = (),
    ) -> int | None:
        """Approve the session; returns its expiry in epoch milliseconds, if it is known.

        A later approval, with other accounts or another chain, replaces this one. An account is an address;
        in generation 2.x it can also be a CAIP-10 id. `push` has the push details for new calls over HTTP;
        None removes them. `cacaos` are the sign-ins that the proposal of generation 2.x asks for, made by
        `Authentication.cacao`; without them the session is approved alone. Raises SessionEndedError,
        RequestRefusedError, BridgeUnreachableError; TypeError if `accounts` is not a list of strings; over a
        WebSocket AnswerTimeoutError without a proposal; UnsupportedError in other generations.
        """
        if cacaos:
            if not isinstance(self._side, RelayWallet):
                raise UnsupportedError("Only generation 2.x has sign-ins.")
            return await self._side.approve(accounts, chain_id, push, cacaos)
        return await self._side.approve(accounts, chain_id, push)

    async def reject(self) -> None:
        """Reject the session. Raises SessionEndedError, BridgeUnreachableError."""
        await self._side.reject()

    def calls(self) -> AsyncGenerator[Call, None]:
        """Yield the session's calls as they arrive, until it ends: `async for call in wallet.calls()`.

        This object yields each call once, also with several loops; over HTTP another object yields it again
        until it is answered. A call that cannot be decrypted is logged, and over HTTP refused (-32700). A
        call that a session of generation 2.x does not allow is refused (3001). An unreachable bridge is
        retried without end. Raises RequestRefusedError, BadAnswerError.
        """
        return self._side.calls()

    async def call(self, call_id: str) -> Call:
        """Read one call, such as the call of a push, answered or not.

        Raises CallExpiredError, SessionEndedError, BadPayloadError, BridgeUnreachableError.
        """
        return await self._side.call(call_id)

    async def answer(self, call: Call, result: Any) -> None:
        """Answer a call with its result. Over HTTP a later answer replaces the earlier.

        Raises CallExpiredError, SessionEndedError, BridgeUnreachableError; TypeError if `result` is not JSON.
        """
        await self._side.answer(call, result)

    async def refuse(self, call: Call, code: int = USER_REJECTED, message: str = REJECTION) -> None:
        """Answer a call with an error, by default 4001 (EIP-1193). Raises the errors of `answer`."""
        await self._side.refuse(call, code, message)

    async def emit(self, name: str, data: Any, chain: str) -> None:
        """Send an event of generation 2.x, such as `chainChanged`; `chain` is a CAIP-2 id.

        Raises UnsupportedError in other generations; SessionEndedError, BridgeUnreachableError.
        """
        await self._side.emit(name, data, chain)

    async def extend(self) -> int:
        """Extend a session of generation 2.x to seven days from now; returns its end in epoch milliseconds.

        Raises UnsupportedError in other generations; SessionEndedError, BridgeUnreachableError.
        """
        return await self._side.extend()

    async def ping(self, timeout: float | None = _PATIENCE_SECONDS) -> None:
        """Wait for the dapp's answer to a ping of generation 2.x. `timeout` is in seconds.

        Raises UnsupportedError in other generations; SessionEndedError, AnswerTimeoutError,
        BridgeUnreachableError.
        """
        await self._side.ping(timeout)

    async def end(self) -> None:
        """End the session, and its calls with it. Raises BridgeUnreachableError."""
        await self._side.end()


def _require(generation: Generation | None, *known: Generation) -> None:
    if generation is not None and generation not in known:
        raise BadPairingError(f"The URI is one of generation {known[0]}, not {generation}.")


def required_relay_url(url: str | None) -> str:
    """The URL, which a pairing URI of generation 2.x does not have. Raises BadPairingError without one."""
    if url is None:
        raise BadPairingError("A pairing URI of generation 2.x names no relay: give relay_url.")
    return sound_relay_url(url)


def sound_relay_url(url: str) -> str:
    """The URL without a slash at its end: ws, wss, http or https. Raises BadPairingError."""
    for socket, web in _HTTP_OF_WEBSOCKET.items():
        if url.startswith(socket):
            return socket + sound_bridge_url(url.replace(socket, web, 1)).removeprefix(web)
    return sound_bridge_url(url)
