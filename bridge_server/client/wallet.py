"""The wallet's side of a session, in every generation of the protocol."""

import time
from collections.abc import AsyncGenerator, Iterable
from types import TracebackType
from typing import Any, Self

import aiohttp

from bridge_server.client.contents import USER_REJECTED, Call, Proposal, Push
from bridge_server.client.errors import BadPairingError
from bridge_server.client.generations import Generation, WalletSide
from bridge_server.client.http.wallet import PollingWallet
from bridge_server.client.pace import Pace
from bridge_server.client.pairing import Pairing, parse_pairing
from bridge_server.client.relay_url import required_relay_url
from bridge_server.client.v1.wallet import SocketWallet
from bridge_server.client.v2.uri import is_relay_pairing, parse_relay_pairing
from bridge_server.client.v2.wallet import RelayWallet

_NAME = "Wallet"
_PATIENCE_SECONDS = 300.0


class Wallet:
    """A wallet in a session that a dapp has opened: `async with Wallet.from_uri(uri) as wallet`.

    `Wallet(pairing)` is for a session over HTTP; `Wallet.from_uri` is for every generation. Leaving the block
    lets go of the connections and not of the session: `end` does that. To go on with a session over HTTP
    later, keep the URI, in secret. A client session that is handed in as `http` stays open. Everything may be
    cancelled.
    """

    def __init__(
        self, pairing: Pairing, *, http: aiohttp.ClientSession | None = None, pace: Pace | None = None
    ) -> None:
        self._side: WalletSide = PollingWallet(pairing, http, pace or Pace())

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
        """The wallet that scanned this pairing URI. Raises BadPairingError.

        The URI tells the generation: `ethereum:wc-...` is 0.7, over HTTP; `wc:...@1` is 1.x; `wc:...@2` is
        2.x. With `generation="plain"`, a URI `wc:...@1` is read as a session over HTTP. A URI of generation
        2.x names no relay: `relay_url` must. `name` and `url` introduce the wallet to the dapp; `project_id`
        is the relay's name for the project.
        """
        wallet = cls.__new__(cls)
        wallet._side = _side(uri, relay_url, generation, name, url, project_id, http, pace or Pace())
        return wallet

    async def __aenter__(self) -> Self:
        await self._side.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._side.close()

    @property
    def pairing(self) -> Pairing:
        """Bridge, session, key. Generation 2.x: UnsupportedError."""
        return self._side.pairing

    async def proposal(self, timeout: float | None = _PATIENCE_SECONDS) -> Proposal:
        """Wait for the session that the dapp asks for. `timeout` in seconds.

        Raises SessionEndedError, AnswerTimeoutError, BridgeUnreachableError, RequestRefusedError.
        """
        return await self._side.proposal(timeout)

    async def approve(
        self, accounts: Iterable[str], *, chain_id: int = 1, push: Push | None = None
    ) -> int | None:
        """Approve the session; returns when it expires, in epoch milliseconds, if that is known.

        Again with other accounts or another chain, it replaces what was said. An account is an address; in
        generation 2.x it may also be a CAIP-10 id. `push` is the webhook that a bridge over HTTP calls for
        each new call. Raises SessionEndedError, RequestRefusedError, BridgeUnreachableError; TypeError for
        what are no accounts; over a WebSocket AnswerTimeoutError when the dapp does not ask for a session.
        """
        return await self._side.approve(accounts, chain_id, push)

    async def reject(self) -> None:
        """Reject the session. Raises SessionEndedError, BridgeUnreachableError."""
        await self._side.reject()

    def calls(self) -> AsyncGenerator[Call, None]:
        """The session's calls as they come, until the session ends: `async for call in wallet.calls()`.

        Each is told once by this object, however many loops there are; over HTTP again by another object as
        long as it is not answered. A call that cannot be read is refused (-32700) over HTTP, and logged; one
        that the session does not allow is refused (3001) in generation 2.x. While the bridge cannot be
        reached, it is tried again, without end. Raises RequestRefusedError, BadAnswerError.
        """
        return self._side.calls()

    async def call(self, call_id: str) -> Call:
        """The call that a push told of, answered or not.

        Raises CallExpiredError, SessionEndedError, BadPayloadError, BridgeUnreachableError.
        """
        return await self._side.call(call_id)

    async def answer(self, call: Call, result: Any) -> None:
        """Answer a call with its result. Over HTTP a later answer replaces the earlier.

        Raises CallExpiredError, SessionEndedError, BridgeUnreachableError; TypeError for what JSON cannot
        say.
        """
        await self._side.answer(call, result)

    async def refuse(
        self, call: Call, code: int = USER_REJECTED, message: str = "The user rejected the request."
    ) -> None:
        """Answer a call with an error, by default the user's no (EIP-1193). Raises what `answer` does."""
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
        """Wait until the dapp has answered a ping of generation 2.x. `timeout` in seconds.

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
