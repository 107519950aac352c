"""The dapp's side of a session."""

import time
from dataclasses import replace
from functools import partial
from itertools import count
from secrets import token_bytes
from types import TracebackType
from typing import Any, Self

import aiohttp

from bridge_server.client.bridge import Bridge
from bridge_server.client.cipher import KEY_BYTES, Cipher
from bridge_server.client.contents import Approval, read_approval, read_result, write_request
from bridge_server.client.errors import BadAnswerError, BadPairingError
from bridge_server.client.exchange import Exchange
from bridge_server.client.pace import Pace
from bridge_server.client.pairing import Pairing, parse_pairing, sound_bridge_url, sound_name
from bridge_server.client.polling import poll

_PATIENCE_SECONDS = 300.0


class Dapp:
    """A dapp, which opens a session on entry: `async with Dapp(url, name="Example") as dapp`.

    If `bridge_url` ends in `/compat/v0.7`, wallets of generation 0.7 can scan the URI. Leaving the block
    closes the connections; the session stays open until `end`. A client session passed as `http` stays open.
    Every method can be cancelled, and calls can be concurrent. Raises BadPairingError.
    """

    def __init__(
        self,
        bridge_url: str,
        *,
        name: str,
        http: aiohttp.ClientSession | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._name = sound_name(name)
        self._exchange = Exchange(sound_bridge_url(bridge_url), http, pace or Pace())
        self._bridge = Bridge(self._exchange)
        self._pairing: Pairing | None = None
        self._request_ids = count(time.time_ns() // 1_000)  # 16 digits, as the published clients make them

    @classmethod
    def resume(
        cls,
        pairing: Pairing | str,
        *,
        name: str | None = None,
        http: aiohttp.ClientSession | None = None,
        pace: Pace | None = None,
    ) -> Self:
        """Continue an earlier session. Its `uri` is all that has to be stored, and it is a secret.

        `name` is required if the pairing has none. Raises BadPairingError.
        """
        known = parse_pairing(pairing) if isinstance(pairing, str) else pairing
        chosen = name or known.name
        if chosen is None:
            raise BadPairingError("The pairing has no name for the dapp: give one.")
        dapp = cls(known.bridge_url, name=chosen, http=http, pace=pace)
        dapp._pairing = replace(known, name=chosen)
        return dapp

    async def __aenter__(self) -> Self:
        """Raises BridgeUnreachableError, RequestRefusedError, BadAnswerError."""
        self._exchange.open()
        try:
            if self._pairing is None:
                await self._open_session()
        except BaseException:
            await self._exchange.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exchange.close()

    @property
    def pairing(self) -> Pairing:
        """The bridge, session and key, which the wallet needs."""
        if self._pairing is None:
            raise RuntimeError("Use it inside `async with`: that opens the session.")
        return self._pairing

    @property
    def uri(self) -> str:
        """The pairing URI to show as a QR code. It is a secret: its reader can act as the wallet."""
        return self.pairing.uri

    async def approval(self, timeout: float | None = _PATIENCE_SECONDS) -> Approval:
        """Wait for the wallet's approval; later calls return its latest one. `timeout` is in seconds.

        Raises RejectedError, SessionEndedError, BadPayloadError, AnswerTimeoutError, BridgeUnreachableError.
        """
        session_id, wait_seconds = self.pairing.session_id, self._exchange.pace.wait_seconds
        async with self._exchange.within(timeout, "The wallet did not answer"):
            payload = await poll(
                partial(self._bridge.session, session_id, wait_seconds), self._exchange.pace.pause_seconds
            )
        return read_approval(self._cipher.open(payload))

    async def call(self, method: str, params: Any, timeout: float | None = _PATIENCE_SECONDS) -> Any:
        """Call a method of the wallet and wait for its result. `timeout` is in seconds.

        To wait beyond a restart of the program, use `request` and `result`, whose errors this also raises.
        """
        async with self._exchange.within(timeout, f"The wallet did not answer the call of {method}"):
            return await self.result(await self.request(method, params, timeout=None), timeout=None)

    async def request(self, method: str, params: Any, timeout: float | None = _PATIENCE_SECONDS) -> str:
        """Send a call to the wallet; returns its id. `timeout` is in seconds.

        A call is never sent twice: if the bridge may have accepted it, the error is BridgeUnreachableError.
        Raises SessionEndedError, RequestRefusedError; TypeError if `params` is not JSON.
        """
        payload = self._cipher.seal(write_request(next(self._request_ids), method, params))
        async with self._exchange.bridge_within(timeout, "The bridge did not take the call"):
            return await self._bridge.request_call(self.pairing.session_id, payload, self._name)

    async def result(self, call_id: str, timeout: float | None = _PATIENCE_SECONDS) -> Any:
        """Wait for the result of a call. `timeout` is in seconds.

        Raises CallFailedError, CallExpiredError, SessionEndedError, BadPayloadError, AnswerTimeoutError,
        BridgeUnreachableError.
        """
        session_id, wait_seconds = self.pairing.session_id, self._exchange.pace.wait_seconds
        async with self._exchange.within(timeout, f"The wallet did not answer the call {call_id}"):
            payload = await poll(
                partial(self._bridge.status, session_id, call_id, wait_seconds),
                self._exchange.pace.pause_seconds,
            )
        return read_result(self._cipher.open(payload))

    async def end(self) -> None:
        """End the session, and its calls with it. Raises BridgeUnreachableError."""
        async with self._exchange.patiently("The bridge did not end the session"):
            await self._bridge.end_session(self.pairing.session_id)

    @property
    def _cipher(self) -> Cipher:
        return Cipher(self.pairing.key)

    async def _open_session(self) -> None:
        async with self._exchange.patiently("The bridge opened no session"):
            session_id = await self._bridge.open_session()
        try:
            self._pairing = Pairing(self._exchange.bridge_url, session_id, token_bytes(KEY_BYTES), self._name)
        except BadPairingError as error:
            raise BadAnswerError(f"The server opened a session that cannot be used: {error}") from error
