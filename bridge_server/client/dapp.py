"""The dapp's side of a session, in every generation of the protocol."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import aiohttp

from bridge_server.client.contents import Approval, Event
from bridge_server.client.errors import BadPairingError
from bridge_server.client.generations import DappSide, Generation
from bridge_server.client.http.dapp import PollingDapp
from bridge_server.client.pace import Pace
from bridge_server.client.pairing import Pairing, parse_pairing, sound_bridge_url, sound_name
from bridge_server.client.relay_url import sound_relay_url
from bridge_server.client.v1.dapp import SocketDapp
from bridge_server.client.v2.dapp import RelayDapp
from bridge_server.client.v2.namespaces import ETHEREUM

_PATIENCE_SECONDS = 300.0


class Dapp:
    """A dapp that opens a session when it is entered: `async with Dapp(url, name="Example") as dapp`.

    `bridge_url` is the bridge's or relay's; with `/compat/v0.7` at its end, wallets of generation 0.7 can
    scan the URI. `generation` is `plain` (also `0.7`) over HTTP, `1.x` or `2.x` over a WebSocket. `url` is
    the dapp's page, which wallets show. In generation 2.x the dapp asks for `namespaces` (CAIP-25; the main
    chain of Ethereum by default), and `project_id` is the relay's name for the project.

    Leaving the block lets go of the connections and not of the session: `end` does that. A client session
    that is handed in as `http` stays open. Everything may be cancelled, and several calls be under way at
    once. Raises BadPairingError; ValueError for namespaces and generations that cannot be.
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
        http: aiohttp.ClientSession | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._side: DappSide
        if generation != "2.x" and (namespaces is not None or project_id is not None):
            raise ValueError("namespaces and project_id belong to generation 2.x")
        match generation:
            case "plain" | "0.7":
                self._side = PollingDapp(sound_bridge_url(bridge_url), sound_name(name), http, pace or Pace())
            case "1.x":
                self._side = SocketDapp(bridge_url, sound_name(name), url, http, pace or Pace())
            case "2.x":
                relay_url, asked = sound_relay_url(bridge_url), ETHEREUM if namespaces is None else namespaces
                self._side = RelayDapp(
                    relay_url, sound_name(name), url, asked, project_id, http, pace or Pace()
                )
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
        """Go on with a session over HTTP that was opened before. To do so, keep its `uri`, in secret.

        `name` is needed where the pairing has none. Raises BadPairingError.
        """
        known = parse_pairing(pairing) if isinstance(pairing, str) else pairing
        chosen = name or known.name
        if chosen is None:
            raise BadPairingError("The pairing has no name for the dapp: give one.")
        dapp = cls(known.bridge_url, name=chosen, http=http, pace=pace)
        dapp._side = PollingDapp(known.bridge_url, chosen, http, pace or Pace(), replace(known, name=chosen))
        return dapp

    async def __aenter__(self) -> Self:
        """Raises BridgeUnreachableError, RequestRefusedError, BadAnswerError."""
        try:
            await self._side.open()
        except BaseException:
            await self._side.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._side.close()

    @property
    def pairing(self) -> Pairing:
        """What the wallet needs to know: bridge, session, key. Generation 2.x: UnsupportedError."""
        return self._side.pairing

    @property
    def uri(self) -> str:
        """What to show as a QR code. Whoever sees it can be the wallet."""
        return self._side.uri

    async def approval(self, timeout: float | None = _PATIENCE_SECONDS) -> Approval:
        """Wait for the wallet's word on the session; after that, the last that it said. `timeout` in seconds.

        Raises RejectedError, SessionEndedError, BadPayloadError, AnswerTimeoutError, BridgeUnreachableError.
        """
        return await self._side.approval(timeout)

    async def call(
        self, method: str, params: Any, timeout: float | None = _PATIENCE_SECONDS, *, chain: str | None = None
    ) -> Any:
        """Ask the wallet for something and wait for its result. `timeout` in seconds.

        Raises what `request` and `result` raise. Who wants to wait for longer than one run uses those two.
        """
        async with self._side.within(timeout, f"The wallet did not answer the call of {method}"):
            call_id = await self.request(method, params, timeout=None, chain=chain)
            return await self.result(call_id, timeout=None)

    async def request(
        self, method: str, params: Any, timeout: float | None = _PATIENCE_SECONDS, *, chain: str | None = None
    ) -> str:
        """Ask the wallet for something; returns the call's id. `timeout` in seconds.

        Over a WebSocket it waits until the wallet has approved the session. `chain` is the chain that a call
        of generation 2.x is for (CAIP-2), by default the first one approved.

        Never asks twice: when it cannot be known whether the bridge took the call, that is a
        BridgeUnreachableError. Raises SessionEndedError, RejectedError, RequestRefusedError; TypeError for
        what JSON cannot say.
        """
        return await self._side.request(method, params, timeout, chain)

    async def result(self, call_id: str, timeout: float | None = _PATIENCE_SECONDS) -> Any:
        """Wait for what a call came to. `timeout` in seconds.

        Raises CallFailedError, CallExpiredError, SessionEndedError, BadPayloadError, AnswerTimeoutError,
        BridgeUnreachableError.
        """
        return await self._side.result(call_id, timeout)

    async def ping(self, timeout: float | None = _PATIENCE_SECONDS) -> None:
        """Wait until the wallet has answered a ping of generation 2.x. `timeout` in seconds.

        Raises UnsupportedError in other generations; SessionEndedError, AnswerTimeoutError,
        BridgeUnreachableError.
        """
        await self._side.ping(timeout)

    def updates(self) -> AsyncGenerator[Approval, None]:
        """What the wallet approves after its first approval, as it comes, until the session ends.

        Raises UnsupportedError over HTTP.
        """
        return self._side.updates()

    def events(self) -> AsyncGenerator[Event, None]:
        """The events of a session of generation 2.x as they come, until it ends.

        Raises UnsupportedError in other generations.
        """
        return self._side.events()

    async def end(self) -> None:
        """End the session, and its calls with it. Raises BridgeUnreachableError."""
        await self._side.end()
