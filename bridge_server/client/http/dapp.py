"""The dapp's side of a session that is polled."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from functools import partial
from secrets import token_bytes
from typing import Any

import aiohttp

from bridge_server.client.http.bridge import HttpBridge
from bridge_server.client.http.polling import poll
from bridge_server.client.http.retrying_client import RetryingClient
from bridge_server.client.session.cipher import KEY_BYTES, Cipher
from bridge_server.client.session.contents import Approval, Event, read_approval, read_result, write_request
from bridge_server.client.session.errors import BadAnswerError, BadPairingError, UnsupportedError
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.pairing import Pairing
from bridge_server.client.session.payload_ids import PayloadIds


class PollingDapp:
    """A dapp that polls. Its `open` opens a session, unless it continues an earlier one."""

    def __init__(
        self,
        bridge_url: str,
        name: str,
        http: aiohttp.ClientSession | None,
        pace: Pace,
        pairing: Pairing | None = None,
    ) -> None:
        self._name = name
        self._client = RetryingClient(bridge_url, http, pace)
        self._bridge = HttpBridge(self._client)
        self._pairing = pairing
        self._request_ids = PayloadIds()

    async def open(self) -> None:
        """Raises BridgeUnreachableError, RequestRefusedError, BadAnswerError."""
        self._client.open()
        if self._pairing is None:
            await self._open_session()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    @property
    def pairing(self) -> Pairing:
        """The bridge, session and key, which the wallet needs."""
        if self._pairing is None:
            raise RuntimeError("Use it inside `async with`: that opens the session.")
        return self._pairing

    @property
    def uri(self) -> str:
        """The URI that a wallet scans."""
        return self.pairing.uri

    def within(self, seconds: float | None, missing: str) -> AbstractAsyncContextManager[None]:
        """Limit the time of the block."""
        return self._client.within(seconds, missing)

    async def approval(self, timeout: float | None) -> Approval:
        """Wait for the wallet's approval."""
        session_id, wait_seconds = self.pairing.session_id, self._client.pace.wait_seconds
        async with self._client.within(timeout, "The wallet did not answer"):
            payload = await poll(
                partial(self._bridge.session, session_id, wait_seconds), self._client.pace.pause_seconds
            )
        return read_approval(self._cipher.open(payload))

    async def request(self, method: str, params: Any, timeout: float | None, chain: str | None) -> str:
        """Make a call; returns its id. It is not retried if the bridge may have accepted it."""
        if chain is not None:
            raise UnsupportedError("A session over HTTP has one chain, the wallet's: name none.")
        payload = self._cipher.seal(write_request(self._request_ids.next(), method, params))
        async with self._client.bridge_within(timeout, "The bridge did not take the call"):
            return await self._bridge.request_call(self.pairing.session_id, payload, self._name)

    async def result(self, call_id: str, timeout: float | None) -> Any:
        """Wait for the answer to a call."""
        session_id, wait_seconds = self.pairing.session_id, self._client.pace.wait_seconds
        async with self._client.within(timeout, f"The wallet did not answer the call {call_id}"):
            payload = await poll(
                partial(self._bridge.status, session_id, call_id, wait_seconds),
                self._client.pace.pause_seconds,
            )
        return read_result(self._cipher.open(payload))

    async def end(self) -> None:
        """End the session, and its calls with it."""
        async with self._client.patiently("The bridge did not end the session"):
            await self._bridge.end_session(self.pairing.session_id)

    async def ping(self, timeout: float | None) -> None:
        """A polled session has no ping. Raises UnsupportedError."""
        raise UnsupportedError("A session over HTTP has no ping between its two sides.")

    def updates(self) -> AsyncGenerator[Approval, None]:
        """A polled session has no updates. Raises UnsupportedError."""
        raise UnsupportedError("A session over HTTP tells of no update: ask for `approval` again.")

    def events(self) -> AsyncGenerator[Event, None]:
        """A polled session has no events. Raises UnsupportedError."""
        raise UnsupportedError("A session over HTTP has no events: `approval` has the last update.")

    @property
    def _cipher(self) -> Cipher:
        return Cipher(self.pairing.key)

    async def _open_session(self) -> None:
        async with self._client.patiently("The bridge opened no session"):
            session_id = await self._bridge.open_session()
        try:
            self._pairing = Pairing(self._client.bridge_url, session_id, token_bytes(KEY_BYTES), self._name)
        except BadPairingError as error:
            raise BadAnswerError(f"The server opened a session that cannot be used: {error}") from error
