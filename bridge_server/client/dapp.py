"""The dapp's side of a session, in every generation of the protocol."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import aiohttp

from bridge_server.client.generations import DappSide, Generation
from bridge_server.client.http.dapp import PollingDapp
from bridge_server.client.relay_url import sound_relay_url
from bridge_server.client.session.authentication import Authentication
from bridge_server.client.session.contents import Approval, Event
from bridge_server.client.session.errors import BadPairingError
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.pairing import Pairing, parse_pairing, sound_bridge_url, sound_name
from bridge_server.client.v1.dapp import SocketDapp
from bridge_server.client.v2.dapp import RelayDapp
from bridge_server.client.v2.namespaces import ETHEREUM

_PATIENCE_SECONDS = 300.0


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
        match generation:
            case "plain" | "0.7":
                self._side = PollingDapp(sound_bridge_url(bridge_url), sound_name(name), http, pace or Pace())
            case "1.x":
                self._side = SocketDapp(bridge_url, sound_name(name), url, http, pace or Pace())
            case "2.x":
                relay_url, asked = sound_relay_url(bridge_url), ETHEREUM if namespaces is None else namespaces
                self._side = RelayDapp(
                    relay_url,
                    sound_name(name),
                    url,
                    asked,
                    project_id,
                    http,
                    pace or Pace(),
                    authentication,
                    one_click,
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
        """Continue an earlier session over HTTP. Its `uri` is all that has to be stored, and it is a secret.

        `name` is required if the pairing has none. Raises BadPairingError.
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
        return await self._side.approval(timeout)

    async def call(
        self, method: str, params: Any, timeout: float | None = _PATIENCE_SECONDS, *, chain: str | None = None
    ) -> Any:
        """Call a method of the wallet and wait for its result. `timeout` is in seconds.

        To wait beyond a restart of the program, use `request` and `result`, whose errors this also raises.
        """
        async with self._side.within(timeout, f"The wallet did not answer the call of {method}"):
            call_id = await self.request(method, params, timeout=None, chain=chain)
            return await self.result(call_id, timeout=None)

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
        return await self._side.result(call_id, timeout)

    async def ping(self, timeout: float | None = _PATIENCE_SECONDS) -> None:
        """Wait for the wallet's answer to a ping of generation 2.x. `timeout` is in seconds.

        Raises UnsupportedError in other generations; SessionEndedError, AnswerTimeoutError,
        BridgeUnreachableError.
        """
        await self._side.ping(timeout)

    def updates(self) -> AsyncGenerator[Approval, None]:
        """Yield the wallet's approvals after the first one as they arrive, until the session ends.

        Raises UnsupportedError over HTTP.
        """
        return self._side.updates()

    def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of a session of generation 2.x as they arrive, until it ends.

        Raises UnsupportedError in other generations.
        """
        return self._side.events()

    async def end(self) -> None:
        """End the session, and its calls with it. Raises BridgeUnreachableError."""
        await self._side.end()
