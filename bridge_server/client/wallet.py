"""The wallet's side of a session, in every generation of the protocol."""

import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import aiohttp

from bridge_server.client.generations import Generation, WalletSide
from bridge_server.client.http.wallet import PollingWallet
from bridge_server.client.relay_url import required_relay_url
from bridge_server.client.session.contents import USER_REJECTED, Call, Proposal, Push
from bridge_server.client.session.errors import BadPairingError, UnsupportedError
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.pairing import Pairing, parse_pairing
from bridge_server.client.v1.wallet import SocketWallet
from bridge_server.client.v2.uri import is_relay_pairing, parse_relay_pairing
from bridge_server.client.v2.wallet import RelayWallet

_NAME = "Wallet"
_PATIENCE_SECONDS = 300.0


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
        if isinstance(pairing, Pairing):
            self._side: WalletSide = PollingWallet(pairing, http, pace or Pace())
        else:
            self._side = pairing

    @classmethod
    def from_uri(
        cls,
        uri: str,
        *,
        relay_url: str | None = None,
        generation: Generation | None = None,
        name: str = _NAME,
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
        return cls(_side(uri, relay_url, generation, name, url, project_id, http, pace or Pace()))

    async def __aenter__(self) -> Self:
        await self._side.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

    async def refuse(
        self, call: Call, code: int = USER_REJECTED, message: str = "The user rejected the request."
    ) -> None:
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


def _side(
    uri: str,
    relay_url: str | None,
    generation: Generation | None,
    name: str,
    url: str,
    project_id: str | None,
    http: aiohttp.ClientSession | None,
    pace: Pace,
) -> WalletSide:
    """The wallet of the generation that the URI belongs to."""
    if is_relay_pairing(uri):
        _require(generation, "2.x")
        relay = required_relay_url(relay_url)
        pairing_2x = parse_relay_pairing(uri)
        if pairing_2x.expires_s is not None and pairing_2x.expires_s < time.time():
            raise BadPairingError("The pairing URI has expired: the dapp must show a new one.")
        return RelayWallet(pairing_2x, relay, name, url, project_id, http, pace)
    pairing = parse_pairing(uri)
    if uri.strip().startswith("wc:") and generation in (None, "1.x"):
        return SocketWallet(pairing, name, url, http, pace)
    _require(generation, "plain", "0.7")
    return PollingWallet(pairing, http, pace)


def _require(generation: Generation | None, *known: Generation) -> None:
    if generation is not None and generation not in known:
        raise BadPairingError(f"The URI is one of generation {known[0]}, not {generation}.")
