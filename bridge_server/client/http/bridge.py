"""A client of the bridge's endpoints (docs/protocol.md, B), with one method for each.

Answers are read with and without the envelope of generation 0.7 (`{"data": ...}`); only the URL of the bridge
decides whether its answers have it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any

import orjson

from bridge_server.client.http.retrying_client import RetryingClient
from bridge_server.client.session.contents import Push
from bridge_server.client.session.errors import (
    BadAnswerError,
    CallExpiredError,
    RequestRefusedError,
    SessionEndedError,
)

_MISSING = 404


class HttpBridge:
    """The sessions and calls of a bridge. Payloads are passed on encrypted."""

    def __init__(self, client: RetryingClient) -> None:
        self._client = client

    async def open_session(self) -> str:
        """Open a session; returns its id."""
        return _text(_document(await self._client.send("POST", "/session/new")), "sessionId")

    async def session(self, session_id: str, wait_seconds: int = 0) -> Any:
        """The payload that the wallet has put, or None. Raises SessionEndedError."""
        async with _of_session(session_id):
            return _payload(await self._poll(f"/session/{session_id}", wait_seconds))

    async def update_session(self, session_id: str, payload: Any, push: Push | None) -> int | None:
        """Put the wallet's payload; returns the expiry of the session in epoch milliseconds, if answered.

        `push` None removes earlier push details. Raises SessionEndedError.
        """
        fields = {"push": None if push is None else asdict(push), "encryptionPayload": payload}
        async with _of_session(session_id):
            answer = await self._client.send("PUT", f"/session/{session_id}", fields)
        expires = _document(answer).get("expires") if answer else None
        return expires if isinstance(expires, int) else None

    async def end_session(self, session_id: str) -> None:
        """End the session. It may have ended already."""
        with suppress(SessionEndedError):
            async with _of_session(session_id):
                await self._client.send("DELETE", f"/session/{session_id}")

    async def request_call(self, session_id: str, payload: Any, dapp_name: str) -> str:
        """Make a call; returns its id. It is not retried if the bridge may have accepted it.

        Raises SessionEndedError, BridgeUnreachableError.
        """
        fields = {"encryptionPayload": payload, "dappName": dapp_name}
        async with _of_session(session_id):
            answer = await self._client.send(
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
        """The payload of a call's status, or None. Raises SessionEndedError, CallExpiredError."""
        async with self._of_call(session_id, call_id):
            return _payload(await self._poll(f"/call-status/{call_id}", wait_seconds))

    async def answer_call(self, session_id: str, call_id: str, payload: Any) -> None:
        """Post the call's status. Raises SessionEndedError, CallExpiredError."""
        async with self._of_call(session_id, call_id):
            await self._client.send("POST", f"/call-status/{call_id}/new", {"encryptionPayload": payload})

    async def _poll(self, path: str, wait_seconds: int) -> dict[str, Any] | None:
        """The JSON object of an answer without its envelope; None for an empty answer."""
        answer = await self._client.send("GET", path, wait_seconds=wait_seconds)
        if not answer:
            return None
        document = _document(answer)
        inner = document.get("data")
        return inner if isinstance(inner, dict) else document

    @asynccontextmanager
    async def _of_call(self, session_id: str, call_id: str) -> AsyncIterator[None]:
        """Turn a 404 into CallExpiredError, or into SessionEndedError if the session has ended too."""
        try:
            yield
        except RequestRefusedError as refusal:
            if refusal.status != _MISSING:
                raise
            # Under the path of generation 0.7 only a long poll answers 404 for an ended session.
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
        raise BadAnswerError("The server did not answer with a JSON object. Is the URL that of a bridge?")
    return document


def _text(document: dict[str, Any], name: str) -> str:
    text = document.get(name)
    if not isinstance(text, str) or not text:
        raise BadAnswerError(f"The server's answer has no {name}. Is the URL that of a bridge?")
    return text


def _payload(holder: Any) -> Any:
    """The `encryptionPayload` of an object; None for None."""
    if holder is None:
        return None
    if not isinstance(holder, dict) or "encryptionPayload" not in holder:
        raise BadAnswerError("The server's answer has no encryptionPayload. Is the URL that of a bridge?")
    return holder["encryptionPayload"]
