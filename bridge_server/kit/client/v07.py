"""Generation 0.7 and the plain bridge: both sides of a session that is polled."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from functools import partial
from secrets import token_bytes
from typing import Any, TypeVar

import aiohttp

from bridge_server.kit.client.errors import (
    BadAnswerError,
    BadPairingError,
    BadPayloadError,
    BridgeClientError,
    Pace,
    SessionEndedError,
    UnsupportedError,
)
from bridge_server.kit.client.http import HttpBridge
from bridge_server.kit.client.pairing import KEY_BYTES, Cipher, Pairing
from bridge_server.kit.client.payloads import (
    Approval,
    Call,
    Event,
    PayloadIds,
    Proposal,
    Push,
    read_approval,
    read_request,
    read_result,
    write_approval,
    write_error,
    write_request,
    write_result,
)

_NO_PING = "A session over HTTP has no ping between its two sides."
_PARSE_ERROR = -32_700

_log = logging.getLogger(__name__)

Found = TypeVar("Found")


class PollingDapp:
    """A dapp whose `open` opens a session, unless it has one. The methods are described in `Dapp`."""

    def __init__(self, bridge: HttpBridge, name: str, pairing: Pairing | None = None) -> None:
        self._name = name
        self._bridge = self.limits = bridge
        self._pairing = pairing
        self._request_ids = PayloadIds()

    async def open(self) -> None:
        self._bridge.open()
        if self._pairing is not None:
            return
        async with self._bridge.patiently("The bridge opened no session"):
            session_id = await self._bridge.open_session()
        try:
            self._pairing = Pairing(self._bridge.url, session_id, token_bytes(KEY_BYTES), self._name)
        except BadPairingError as error:
            raise BadAnswerError(f"The server opened a session that cannot be used: {error}") from error

    async def close(self) -> None:
        await self._bridge.close()

    @property
    def pairing(self) -> Pairing:
        if self._pairing is None:
            raise RuntimeError("Use it inside `async with`: that opens the session.")
        return self._pairing

    @property
    def uri(self) -> str:
        return self.pairing.uri

    async def approval(self) -> Approval:
        session_id, pace = self.pairing.session_id, self._bridge.pace
        payload = await poll(partial(self._bridge.session, session_id, pace.wait_seconds), pace.pause_seconds)
        return read_approval(self._cipher.open(payload))

    async def request(self, method: str, params: Any, timeout: float | None, chain: str | None) -> str:
        if chain is not None:
            raise UnsupportedError("A session over HTTP has one chain, the wallet's: name none.")
        payload = self._cipher.seal(write_request(self._request_ids.next(), method, params))
        async with self._bridge.bridge_within(timeout, "The bridge did not take the call"):
            return await self._bridge.request_call(self.pairing.session_id, payload, self._name)

    async def result(self, call_id: str) -> Any:
        session_id, pace = self.pairing.session_id, self._bridge.pace
        read = partial(self._bridge.status, session_id, call_id, pace.wait_seconds)
        return read_result(self._cipher.open(await poll(read, pace.pause_seconds)))

    async def end(self) -> None:
        async with self._bridge.patiently("The bridge did not end the session"):
            await self._bridge.end_session(self.pairing.session_id)

    async def ping(self, timeout: float | None) -> None:
        raise UnsupportedError(_NO_PING)

    def updates(self) -> AsyncGenerator[Approval, None]:
        raise UnsupportedError("A session over HTTP tells of no update: ask for `approval` again.")

    def events(self) -> AsyncGenerator[Event, None]:
        raise UnsupportedError("A session over HTTP has no events: `approval` has the last update.")

    @property
    def _cipher(self) -> Cipher:
        return Cipher(self.pairing.key)


class PollingWallet:
    """A wallet that polls for the session's calls. The methods are described in `Wallet`."""

    def __init__(self, pairing: Pairing, http: aiohttp.ClientSession | None, pace: Pace) -> None:
        self.pairing = pairing
        self.topic = pairing.session_id
        self._cipher = Cipher(pairing.key)
        self._bridge = HttpBridge(pairing.bridge_url, http, pace)
        self._seen: set[str] = set()
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        self._bridge.open()

    async def close(self) -> None:
        await self._bridge.close()

    async def proposal(self, timeout: float | None) -> Proposal:
        """The dapp's name, if the pairing URI has one."""
        return Proposal(self.pairing.name or "", "", {})

    async def approve(self, accounts: Iterable[str], chain_id: int, push: Push | None) -> int | None:
        return await self._update(write_approval(accounts, chain_id), push)

    async def reject(self) -> None:
        await self._update({"approved": False}, None)

    async def calls(self) -> AsyncGenerator[Call, None]:
        while True:
            try:
                async with self._turn:
                    pending = await poll(self._new_calls, self._bridge.pace.pause_seconds)
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
        async with self._bridge.patiently("The bridge did not tell of the call"):
            payload = await self._bridge.call(self.topic, call_id)
        return read_request(call_id, self._cipher.open(payload))

    async def answer(self, call: Call, result: Any) -> None:
        await self._post(call.call_id, write_result(call, result))

    async def refuse(self, call: Call, code: int, message: str) -> None:
        await self._post(call.call_id, write_error(call.request_id, code, message))

    async def end(self) -> None:
        async with self._bridge.patiently("The bridge did not end the session"):
            await self._bridge.end_session(self.topic)

    async def emit(self, name: str, data: Any, chain: str) -> None:
        raise UnsupportedError("A session over HTTP has no events: approve again with what has changed.")

    async def extend(self) -> int:
        raise UnsupportedError("A session over HTTP is extended by each approval: approve again.")

    async def ping(self, timeout: float | None) -> None:
        raise UnsupportedError(_NO_PING)

    async def _update(self, content: dict[str, Any], push: Push | None) -> int | None:
        async with self._bridge.patiently("The bridge did not take the wallet's word"):
            return await self._bridge.update_session(self.topic, self._cipher.seal(content), push)

    async def _post(self, call_id: str, content: dict[str, Any]) -> None:
        async with self._bridge.patiently("The bridge did not take the answer"):
            await self._bridge.answer_call(self.topic, call_id, self._cipher.seal(content))

    async def _new_calls(self) -> dict[str, Any] | None:
        """The pending calls that were not yielded yet; None if there are none."""
        pending = await self._bridge.calls(self.topic, self._bridge.pace.wait_seconds)
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


async def poll(read: Callable[[], Awaitable[Found | None]], pause_seconds: float) -> Found:
    """Call `read` until it returns a result, at most once in `pause_seconds`.

    A bridge with long polling holds each read for longer than `pause_seconds`, so the next one follows at
    once. A bridge without it, or a bridge that is about to stop, answers sooner, whatever its header
    Preference-Applied says.
    """
    now = asyncio.get_running_loop().time
    while True:
        asked_at = now()
        found = await read()
        if found is not None:
            return found
        await asyncio.sleep(max(0.0, asked_at + pause_seconds - now()))
