"""The dapp's side of generation 1.x."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from secrets import token_bytes
from typing import Any
from uuid import uuid4

import aiohttp

from bridge_server.client.session.cipher import KEY_BYTES
from bridge_server.client.session.contents import Approval, Event, read_approval
from bridge_server.client.session.errors import (
    BadPayloadError,
    RejectedError,
    SessionEndedError,
    UnsupportedError,
)
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.pairing import Pairing
from bridge_server.client.v1.messages import first_parameter, peer
from bridge_server.client.v1.session import SocketSession

_HANDSHAKE = "wc_sessionRequest"


class SocketDapp:
    """A dapp whose `open` publishes a session request."""

    def __init__(
        self, bridge_url: str, name: str, url: str, http: aiohttp.ClientSession | None, pace: Pace
    ) -> None:
        self.pairing = Pairing(bridge_url, str(uuid4()), token_bytes(KEY_BYTES), name)
        self._session = SocketSession(self.pairing, http, pace, self._requested, self._responded)
        self._introduction = {**peer(self._session.client_id, name, url), "chainId": None}
        self._handshake_id = self._session.ids.next()

    @property
    def uri(self) -> str:
        """The URI that a wallet scans."""
        return self.pairing.wc_uri

    async def open(self) -> None:
        """Publish the session request. Raises BridgeUnreachableError, RequestRefusedError."""
        self._session.open()
        async with self._session.line.patiently("The bridge opened no session"):
            topic, asked = self.pairing.session_id, [self._introduction]
            await self._session.request(topic, _HANDSHAKE, asked, self._handshake_id)

    async def close(self) -> None:
        """Close the connection."""
        await self._session.line.close()

    def within(self, seconds: float | None, missing: str) -> AbstractAsyncContextManager[None]:
        """Limit the time of the block."""
        return self._session.line.within(seconds, missing)

    async def approval(self, timeout: float | None) -> Approval:
        """Wait for the wallet's approval."""
        async with self.within(timeout, "The wallet did not answer"):
            return await self._session.conversation.approval_given()

    async def request(self, method: str, params: Any, timeout: float | None, chain: str | None) -> str:
        """Wait for the approval, and publish a call; returns its id."""
        if chain is not None:
            raise UnsupportedError("A session of generation 1.x has one chain, the wallet's: name none.")
        async with self._session.line.bridge_within(timeout, "The bridge did not take the call"):
            await self._session.conversation.approval_given()
            topic = self._session.peer_id or ""
            return str(await self._session.request(topic, method, params, repeatable=False))

    async def result(self, call_id: str, timeout: float | None) -> Any:
        """Wait for the answer to a call."""
        async with self.within(timeout, f"The wallet did not answer the call {call_id}"):
            return await self._session.conversation.result_of(call_id)

    async def end(self) -> None:
        """End the session and tell the wallet."""
        async with self._session.line.patiently("The bridge did not end the session"):
            await self._session.end()

    async def ping(self, timeout: float | None) -> None:
        """Generation 1.x has no ping."""
        raise UnsupportedError("Generation 1.x has no ping between the two sides.")

    def updates(self) -> AsyncGenerator[Approval, None]:
        """Yield the wallet's updates as they arrive, until the session ends."""
        return self._session.conversation.next_updates()

    def events(self) -> AsyncGenerator[Event, None]:
        """Generation 1.x has no events."""
        raise UnsupportedError("Generation 1.x has no events: `approval` has the last update.")

    def _requested(self, content: dict[str, Any]) -> None:
        """Handle an update of the wallet."""
        if content["method"] == "wc_sessionUpdate":
            try:
                self._session.conversation.approved(read_approval(first_parameter(content)))
            except RejectedError:
                self._session.conversation.fail(SessionEndedError("The wallet ended the session."))

    def _responded(self, content: dict[str, Any]) -> None:
        """Handle the answer to the session request, or to a call."""
        if content.get("id") == self._handshake_id:
            self._approved(content)
        else:
            self._session.conversation.answered(str(content.get("id")), content)

    def _approved(self, content: dict[str, Any]) -> None:
        if self._session.peer_id is not None:  # it came before
            return
        try:
            approval = read_approval(_result(content))
        except RejectedError as rejection:
            self._session.conversation.fail(rejection)
            return
        peer_id = approval.content.get("peerId")
        if not isinstance(peer_id, str) or not peer_id:
            raise BadPayloadError("The approval has no peerId.")
        self._session.peer_id = peer_id
        self._session.conversation.approved(approval)


def _result(content: dict[str, Any]) -> Any:
    """The result in a response to the session request. Raises RejectedError for an error."""
    error = content.get("error")
    if isinstance(error, dict):
        raise RejectedError(str(error.get("message") or "The wallet does not approve the session."))
    return content.get("result")
