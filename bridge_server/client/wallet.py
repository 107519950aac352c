"""The wallet's side of a session."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from types import TracebackType
from typing import Any, Self

import aiohttp

from bridge_server.client.bridge import Bridge
from bridge_server.client.cipher import Cipher
from bridge_server.client.contents import (
    USER_REJECTED,
    Call,
    Push,
    read_request,
    write_approval,
    write_error,
    write_rejection,
    write_result,
)
from bridge_server.client.errors import BadPayloadError, BridgeClientError, SessionEndedError
from bridge_server.client.exchange import Exchange
from bridge_server.client.pace import Pace
from bridge_server.client.pairing import Pairing, parse_pairing
from bridge_server.client.polling import poll

_PARSE_ERROR = -32_700

_log = logging.getLogger(__name__)


class Wallet:
    """A wallet in a session that a dapp has opened: `async with Wallet.from_uri(uri) as wallet`.

    Leaving the block closes the connections; the session stays open until `end`. To continue later, store the
    URI, which is a secret. A client session passed as `http` stays open. Every method can be cancelled.
    """

    def __init__(
        self, pairing: Pairing, *, http: aiohttp.ClientSession | None = None, pace: Pace | None = None
    ) -> None:
        self.pairing = pairing
        self._cipher = Cipher(pairing.key)
        self._exchange = Exchange(pairing.bridge_url, http, pace or Pace())
        self._bridge = Bridge(self._exchange)
        self._seen: set[str] = set()
        self._turn = asyncio.Lock()

    @classmethod
    def from_uri(
        cls, uri: str, *, http: aiohttp.ClientSession | None = None, pace: Pace | None = None
    ) -> Self:
        """Make a wallet from a scanned pairing URI, in either form. Raises BadPairingError."""
        return cls(parse_pairing(uri), http=http, pace=pace)

    async def __aenter__(self) -> Self:
        self._exchange.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exchange.close()

    async def approve(
        self, accounts: Iterable[str], *, chain_id: int = 1, push: Push | None = None
    ) -> int | None:
        """Approve the session; returns its expiry in epoch milliseconds, if the bridge answers it.

        A later approval, with other accounts or another chain, replaces this one. `push` has the push details
        for new calls; None removes them. Raises SessionEndedError, RequestRefusedError,
        BridgeUnreachableError; TypeError if `accounts` is not a list of strings.
        """
        return await self._update(write_approval(accounts, chain_id), push)

    async def reject(self) -> None:
        """Reject the session. Raises SessionEndedError, BridgeUnreachableError."""
        await self._update(write_rejection(), None)

    async def calls(self) -> AsyncGenerator[Call, None]:
        """Yield the session's calls as they arrive, until it ends: `async for call in wallet.calls()`.

        This object yields each call once, also with several loops; another object yields it again until it is
        answered. A call that cannot be decrypted is refused (-32700) and logged. An unreachable bridge is
        retried without end. Raises RequestRefusedError, BadAnswerError.
        """
        while True:
            try:
                async with self._turn:
                    pending = await poll(self._new_calls, self._exchange.pace.pause_seconds)
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
        """Read one call, such as the call of a push, answered or not.

        Raises CallExpiredError, SessionEndedError, BadPayloadError, BridgeUnreachableError.
        """
        async with self._exchange.patiently("The bridge did not tell of the call"):
            payload = await self._bridge.call(self.pairing.session_id, call_id)
        return read_request(call_id, self._cipher.open(payload))

    async def answer(self, call: Call, result: Any) -> None:
        """Answer a call with its result. A later answer replaces the earlier.

        Raises CallExpiredError, SessionEndedError, BridgeUnreachableError; TypeError if `result` is
        not JSON.
        """
        await self._post(call.call_id, write_result(call, result))

    async def refuse(
        self, call: Call, code: int = USER_REJECTED, message: str = "The user rejected the request."
    ) -> None:
        """Answer a call with an error, by default 4001 (EIP-1193). Raises the errors of `answer`."""
        await self._post(call.call_id, write_error(call.request_id, code, message))

    async def end(self) -> None:
        """End the session, and its calls with it. Raises BridgeUnreachableError."""
        async with self._exchange.patiently("The bridge did not end the session"):
            await self._bridge.end_session(self.pairing.session_id)

    async def _update(self, content: dict[str, Any], push: Push | None) -> int | None:
        async with self._exchange.patiently("The bridge did not take the wallet's word"):
            return await self._bridge.update_session(
                self.pairing.session_id, self._cipher.seal(content), push
            )

    async def _post(self, call_id: str, content: dict[str, Any]) -> None:
        async with self._exchange.patiently("The bridge did not take the answer"):
            await self._bridge.answer_call(self.pairing.session_id, call_id, self._cipher.seal(content))

    async def _new_calls(self) -> dict[str, Any] | None:
        """The pending calls that were not yielded yet; None if there are none."""
        pending = await self._bridge.calls(self.pairing.session_id, self._exchange.pace.wait_seconds)
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
