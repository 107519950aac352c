"""The wallet's side of generation 1.x."""

from collections.abc import AsyncGenerator, Iterable
from typing import Any

import aiohttp

from bridge_server.client.session.contents import (
    Call,
    Proposal,
    Push,
    read_approval,
    read_request,
    write_error,
    write_result,
)
from bridge_server.client.session.errors import SessionEndedError, UnsupportedError
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.pairing import Pairing
from bridge_server.client.v1.messages import first_parameter, peer, read_proposal, status
from bridge_server.client.v1.session import SocketSession

_SERVER_ERROR = -32_000


class SocketWallet:
    """A wallet that has scanned a pairing URI of generation 1.x."""

    def __init__(
        self, pairing: Pairing, name: str, url: str, http: aiohttp.ClientSession | None, pace: Pace
    ) -> None:
        self.pairing = pairing
        self._session = SocketSession(pairing, http, pace, self._requested, _ignore)
        self._introduction = peer(self._session.client_id, name, url)
        self._handshake: int | str | None = None
        self._answered = False

    @property
    def topic(self) -> str:
        """The topic of this side's id."""
        return self._session.client_id

    async def open(self) -> None:
        """Listen for the session request, in the background."""
        self._session.open(self.pairing.session_id)

    async def close(self) -> None:
        """Close the connection."""
        await self._session.line.close()

    async def proposal(self, timeout: float | None) -> Proposal:
        """Wait for the dapp's session request."""
        async with self._session.line.within(timeout, "The dapp did not ask for a session"):
            return await self._session.conversation.proposal_made()

    async def approve(self, accounts: Iterable[str], chain_id: int, push: Push | None) -> int | None:
        """Answer the session request; after that, publish an update."""
        if push is not None:
            raise UnsupportedError("Generation 1.x registers webhooks with POST /subscribe, not here.")
        said = status(accounts, chain_id)
        await self.proposal(self._session.line.pace.patience_seconds)
        async with self._session.line.patiently("The bridge did not take the wallet's word"):
            # The dapp's first call may come before the bridge has confirmed the approval.
            self._session.conversation.approved(read_approval(said))
            if self._answered:
                await self._session.update(said)
            else:
                result = {**said, **self._introduction}
                await self._session.respond({"id": self._handshake, "jsonrpc": "2.0", "result": result})
        self._answered = True
        return None

    async def reject(self) -> None:
        """Answer the session request with an error, and end the session."""
        await self.proposal(self._session.line.pace.patience_seconds)
        async with self._session.line.patiently("The bridge did not take the wallet's word"):
            await self._session.respond(write_error(self._handshake, _SERVER_ERROR, "Session Rejected"))
        self._session.conversation.fail(SessionEndedError("This side rejected the session."))

    def calls(self) -> AsyncGenerator[Call, None]:
        """Yield the calls as they arrive, until the session ends."""
        return self._session.conversation.next_calls()

    async def call(self, call_id: str) -> Call:
        """A received call."""
        return self._session.conversation.call(call_id)

    async def answer(self, call: Call, result: Any) -> None:
        """Answer a call with its result."""
        await self._respond(write_result(call, result))

    async def refuse(self, call: Call, code: int, message: str) -> None:
        """Answer a call with an error."""
        await self._respond(write_error(call.request_id, code, message))

    async def end(self) -> None:
        """End the session and tell the dapp."""
        async with self._session.line.patiently("The bridge did not end the session"):
            await self._session.end()

    async def emit(self, name: str, data: Any, chain: str) -> None:
        """Generation 1.x has no events."""
        raise UnsupportedError("Generation 1.x has no events: approve again with what has changed.")

    async def extend(self) -> int:
        """A session of generation 1.x does not expire."""
        raise UnsupportedError("A session of generation 1.x does not expire.")

    async def ping(self, timeout: float | None) -> None:
        """Generation 1.x has no ping."""
        raise UnsupportedError("Generation 1.x has no ping between the two sides.")

    async def _respond(self, content: dict[str, Any]) -> None:
        async with self._session.line.patiently("The bridge did not take the answer"):
            await self._session.respond(content)

    def _requested(self, content: dict[str, Any]) -> None:
        match content["method"]:
            case "wc_sessionRequest":
                self._proposed(content)
            case "wc_sessionUpdate":
                if first_parameter(content).get("approved") is not True:
                    self._session.conversation.fail(SessionEndedError("The dapp ended the session."))
            case _:
                call = read_request(str(content.get("id")), content)
                if self._session.conversation.approval is not None:
                    self._session.conversation.called(call)

    def _proposed(self, content: dict[str, Any]) -> None:
        if self._session.peer_id is None:
            proposal, self._session.peer_id = read_proposal(content)
            self._handshake = read_request("", content).request_id
            self._session.conversation.proposed(proposal)


def _ignore(_: dict[str, Any]) -> None:
    """Ignore a response. The dapp does not answer updates of the session."""
