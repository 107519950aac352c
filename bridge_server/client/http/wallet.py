"""The wallet's side of a session that is polled."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import aiohttp

from bridge_server.client.http.bridge import HttpBridge
from bridge_server.client.http.polling import poll
from bridge_server.client.http.retrying_client import RetryingClient
from bridge_server.client.session.cipher import Cipher
from bridge_server.client.session.contents import (
    Call,
    Proposal,
    Push,
    read_request,
    write_approval,
    write_error,
    write_rejection,
    write_result,
)
from bridge_server.client.session.errors import (
    BadPayloadError,
    BridgeClientError,
    SessionEndedError,
    UnsupportedError,
)
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.pairing import Pairing

_PARSE_ERROR = -32_700

_log = logging.getLogger(__name__)


class PollingWallet:
    """A wallet that reads and answers the session's calls by polling."""

    def __init__(self, pairing: Pairing, http: aiohttp.ClientSession | None, pace: Pace) -> None:
        self.pairing = pairing
        self._cipher = Cipher(pairing.key)
        self._client = RetryingClient(pairing.bridge_url, http, pace)
        self._bridge = HttpBridge(self._client)
        self._seen: set[str] = set()
        self._turn = asyncio.Lock()

    @property
    def topic(self) -> str:
        """The session's id."""
        return self.pairing.session_id

    async def open(self) -> None:
        """Get ready for requests."""
        self._client.open()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def proposal(self, timeout: float | None) -> Proposal:
        """The dapp's name, if the pairing URI has one."""
        return Proposal(self.pairing.name or "", "", {})

    async def approve(self, accounts: Iterable[str], chain_id: int, push: Push | None) -> int | None:
        """Put the approval, which replaces an earlier one."""
        return await self._update(write_approval(accounts, chain_id), push)

    async def reject(self) -> None:
        """Put the rejection."""
        await self._update(write_rejection(), None)

    async def calls(self) -> AsyncGenerator[Call, None]:
        """Yield the calls as they arrive, until the session ends. An undecryptable call is refused."""
        while True:
            try:
                async with self._turn:
                    pending = await poll(self._new_calls, self._client.pace.pause_seconds)
            except SessionEndedError:
                return
            for call_id, payload in pending.items():
                if call_id in self._seen:  # by another loop
                    continue
                self._seen.add(call_id)
                call = await self._readable(call_id, payload)
                if call is not None:
                    yield call

    async def call(self, call_id: str) -> Call:
        """A call of the session, answered or not."""
        async with self._client.patiently("The bridge did not tell of the call"):
            payload = await self._bridge.call(self.pairing.session_id, call_id)
        return read_request(call_id, self._cipher.open(payload))

    async def answer(self, call: Call, result: Any) -> None:
        """Answer a call with its result."""
        await self._post(call.call_id, write_result(call, result))

    async def refuse(self, call: Call, code: int, message: str) -> None:
        """Answer a call with an error."""
        await self._post(call.call_id, write_error(call.request_id, code, message))

    async def end(self) -> None:
        """End the session, and its calls with it."""
        async with self._client.patiently("The bridge did not end the session"):
            await self._bridge.end_session(self.pairing.session_id)

    async def emit(self, name: str, data: Any, chain: str) -> None:
        """A polled session has no events. Raises UnsupportedError."""
        raise UnsupportedError("A session over HTTP has no events: approve again with what has changed.")

    async def extend(self) -> int:
        """A polled session is extended by use. Raises UnsupportedError."""
        raise UnsupportedError("A session over HTTP is extended by each approval: approve again.")

    async def ping(self, timeout: float | None) -> None:
        """A polled session has no ping. Raises UnsupportedError."""
        raise UnsupportedError("A session over HTTP has no ping between its two sides.")

    async def _update(self, content: dict[str, Any], push: Push | None) -> int | None:
        async with self._client.patiently("The bridge did not take the wallet's word"):
            return await self._bridge.update_session(
                self.pairing.session_id, self._cipher.seal(content), push
            )

    async def _post(self, call_id: str, content: dict[str, Any]) -> None:
        async with self._client.patiently("The bridge did not take the answer"):
            await self._bridge.answer_call(self.pairing.session_id, call_id, self._cipher.seal(content))

    async def _new_calls(self) -> dict[str, Any] | None:
        """The pending calls that were not yielded yet; None if there are none."""
        pending = await self._bridge.calls(self.pairing.session_id, self._client.pace.wait_seconds)
        self._seen &= pending.keys()
        return {call_id: pending[call_id] for call_id in pending if call_id not in self._seen} or None

    async def _readable(self, call_id: str, payload: Any) -> Call | None:
        try:
            return read_request(call_id, self._cipher.open(payload))
        except BadPayloadError as error:
            _log.warning("call %s is refused: %s", call_id, error)
        try:
            await self._post(call_id, write_error(None, _PARSE_ERROR, "The wallet cannot read the call."))
        except BridgeClientError as error:
            _log.warning("call %s could not be refused: %s", call_id, error)
        return None
