"""The bridge's endpoints (docs/protocol.md, B), one method each.

The envelope of generation 0.7 (`{"data": ...}` around what is read) is understood wherever it is: whether
a bridge speaks it is a matter of its URL alone, and a session is the same with and without.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any

import orjson

from bridge_server.client.contents import Push
from bridge_server.client.errors import (
    BadAnswerError,
    CallExpiredError,
    RequestRefusedError,
    SessionEndedError,
)
from bridge_server.client.http.exchange import Exchange

_MISSING = 404


class Bridge:
    """What a bridge holds. Payloads are as they come: only who has the key can tell what they say."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def open_session(self) -> str:
        """A new session's id."""
        return _text(_document(await self._exchange.send("POST", "/session/new")), "sessionId")

    async def session(self, session_id: str, wait_seconds: int = 0) -> Any:
        """What the wallet put, or None when there is nothing yet. Raises SessionEndedError."""
        async with _of_session(session_id):
            return _payload(await self._poll(f"/session/{session_id}", wait_seconds))

    async def update_session(self, session_id: str, payload: Any, push: Push | None) -> int | None:
        """Put the wallet's word; returns when the session expires, in epoch milliseconds, if it is told.

        `push` None removes what there was. Raises SessionEndedError.
        """
        fields = {"push": None if push is None else asdict(push), "encryptionPayload": payload}
        async with _of_session(session_id):
            answer = await self._exchange.send("PUT", f"/session/{session_id}", fields)
        expires = _document(answer).get("expires") if answer else None
        return expires if isinstance(expires, int) else None

    async def end_session(self, session_id: str) -> None:
        """End the session; one that has ended already is as good."""
        with suppress(SessionEndedError):
            async with _of_session(session_id):
                await self._exchange.send("DELETE", f"/session/{session_id}")

    async def request_call(self, session_id: str, payload: Any, dapp_name: str) -> str:
        """A new call's id. Raises SessionEndedError; BridgeUnreachableError rather than ask twice."""
        fields = {"encryptionPayload": payload, "dappName": dapp_name}
        async with _of_session(session_id):
            answer = await self._exchange.send(
                "POST", f"/session/{session_id}/call/new", fields, repeatable=False
            )
        return _text(_document(answer), "callId")

    async def calls(self, session_id: str, wait_seconds: int = 0) -> dict[str, Any]:
        """The payloads of calls without a status, by call id, oldest first. Raises SessionEndedError."""
        async with _of_session(session_id):
            found = await self._poll(f"/session/{session_id}/calls", wait_seconds)
        return {call_id: _payload(call) for call_id, call in (found or {}).items()}

    async def call(self, session_id: str, call_id: str) -> Any:
        """One call's payload. Raises SessionEndedError, CallExpiredError."""
        async with self._of_call(session_id, call_id):
            return _payload(await self._poll(f"/session/{session_id}/call/{call_id}", 0))

    async def status(self, session_id: str, call_id: str, wait_seconds: int = 0) -> Any:
        """The call's status, or None when there is none. Raises SessionEndedError, CallExpiredError."""
        async with self._of_call(session_id, call_id):
            return _payload(await self._poll(f"/call-status/{call_id}", wait_seconds))

    async def answer_call(self, session_id: str, call_id: str, payload: Any) -> None:
        """Post the call's status. Raises SessionEndedError, CallExpiredError."""
        async with self._of_call(session_id, call_id):
            await self._exchange.send("POST", f"/call-status/{call_id}/new", {"encryptionPayload": payload})

    async def _poll(self, path: str, wait_seconds: int) -> dict[str, Any] | None:
        """What is there, out of its envelope; None when there is nothing."""
        answer = await self._exchange.send("GET", path, wait_seconds=wait_seconds)
        if not answer:
            return None
        document = _document(answer)
        inner = document.get("data")
        return inner if isinstance(inner, dict) else document

    @asynccontextmanager
    async def _of_call(self, session_id: str, call_id: str) -> AsyncIterator[None]:
        """A 404 is about the call, unless its session is gone as well."""
        try:
            yield
        except RequestRefusedError as refusal:
            if refusal.status != _MISSING:
                raise
            # Under the path of generation 0.7 only who waits is told that a session has ended.
            await self.session(session_id, wait_seconds=1)
            raise CallExpiredError(f"The bridge has forgotten the call {call_id}.") from refusal


@asynccontextmanager
async def _of_session(session_id: str) -> AsyncIterator[None]:
    try:
        yield
    except RequestRefusedError as refusal:
        if refusal.status != _MISSING:
            raise
        raise SessionEndedError(
            f"The bridge has no session {session_id}, or none any more. Open another."
        ) from refusal


def _document(answer: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(answer)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise BadAnswerError("What answered sent no JSON object. Is the URL a bridge's?")
    return document


def _text(document: dict[str, Any], name: str) -> str:
    text = document.get(name)
    if not isinstance(text, str) or not text:
        raise BadAnswerError(f"What answered sent no {name}. Is the URL a bridge's?")
    return text


def _payload(holder: Any) -> Any:
    """The `encryptionPayload` of what was read; None when nothing was."""
    if holder is None:
        return None
    if not isinstance(holder, dict) or "encryptionPayload" not in holder:
        raise BadAnswerError("What answered sent no encryptionPayload. Is the URL a bridge's?")
    return holder["encryptionPayload"]
