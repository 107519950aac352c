"""The wallet's side of generation 2.x."""

import logging
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

import aiohttp

from bridge_server.client.session.cacaos import namespaces_of
from bridge_server.client.session.contents import Call, Proposal, Push, write_request
from bridge_server.client.session.errors import BadPayloadError, SessionEndedError, UnsupportedError
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.pairing import Pairing
from bridge_server.client.v2.envelope import TopicKey
from bridge_server.client.v2.keys import KeyPair, read_public_key
from bridge_server.client.v2.methods import (
    AUTHENTICATE,
    AUTHENTICATION_REJECTION,
    REJECTION,
    RESPONSES,
    SESSION_SECONDS,
)
from bridge_server.client.v2.namespaces import allows_call, approved
from bridge_server.client.v2.one_click import OneClick, one_click_result
from bridge_server.client.v2.pairing_requests import PairingRequests
from bridge_server.client.v2.session import (
    UNAUTHORIZED_METHOD,
    RelaySession,
    failed,
    introduction,
    parameters,
)
from bridge_server.client.v2.uri import RelayPairing

_USER_REJECTED = 5000

_log = logging.getLogger(__name__)


class RelayWallet:
    """A wallet that has scanned a pairing URI of generation 2.x."""

    def __init__(
        self,
        relay_pairing: RelayPairing,
        relay_url: str,
        name: str,
        url: str,
        project_id: str | None,
        http: aiohttp.ClientSession | None,
        pace: Pace,
    ) -> None:
        self._pairing = relay_pairing.topic_key
        self._metadata = introduction(name, url)
        self._own = KeyPair()
        self._session = RelaySession(relay_url, project_id, http, pace, self._requested)
        self._asked = PairingRequests(relay_pairing, self._session.conversation)
        self._settlement_id = ""
        self._namespaces: dict[str, Any] = {}
        self._answered = False

    @property
    def pairing(self) -> Pairing:
        """Raises UnsupportedError: a pairing of generation 2.x has no bridge and no session."""
        raise UnsupportedError("A pairing of generation 2.x names no bridge and no session.")

    @property
    def topic(self) -> str:
        """The topic of the session. Raises SessionEndedError before the approval."""
        return self._session.open_key().topic

    async def open(self) -> None:
        """Listen for the proposal, in the background."""
        self._session.relay.listen(self._pairing, self._asked.heard)
        self._session.line.open(self._session.relay)

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    async def proposal(self, timeout: float | None) -> Proposal:
        """Wait for the dapp's proposal."""
        async with self._session.line.within(timeout, "The dapp did not propose a session"):
            return await self._session.conversation.proposal_made()

    async def approve(
        self,
        accounts: Iterable[str],
        chain_id: int,
        push: Push | None,
        cacaos: Sequence[Mapping[str, Any]] = (),
    ) -> int | None:
        """Answer the proposal and settle the session; after that, publish an update."""
        if push is not None:
            raise UnsupportedError("Generation 2.x registers webhooks with POST /subscribe, not here.")
        proposal = await self.proposal(self._session.line.pace.patience_seconds)
        namespaces = approved(proposal.content, accounts, chain_id)
        async with self._session.line.patiently("The relay did not take the wallet's word"):
            if self._answered:
                self._namespaces = namespaces
                await self._session.request("wc_sessionUpdate", {"namespaces": namespaces})
            elif self._asked.one_click is not None and cacaos:
                await self._authenticate(self._asked.one_click, cacaos)
            else:
                await self._settle(namespaces, cacaos)
            self._answered = True
        expires_s = self._session.expires_s
        return None if expires_s is None else expires_s * 1_000

    async def reject(self) -> None:
        """Answer the proposal with an error, and end the session."""
        await self.proposal(self._session.line.pace.patience_seconds)
        async with self._session.line.patiently("The relay did not take the wallet's word"):
            await self._publish_rejection()
        self._session.conversation.fail(SessionEndedError("This side rejected the session."))

    def calls(self) -> AsyncGenerator[Call, None]:
        """Yield the calls as they arrive, until the session ends."""
        return self._session.conversation.next_calls()

    async def call(self, call_id: str) -> Call:
        """A received call."""
        return self._session.conversation.call(call_id)

    async def answer(self, call: Call, result: Any) -> None:
        """Answer a call with its result."""
        async with self._session.line.patiently("The relay did not take the answer"):
            await self._session.respond(call.request_id, result)

    async def refuse(self, call: Call, code: int, message: str) -> None:
        """Answer a call with an error."""
        async with self._session.line.patiently("The relay did not take the answer"):
            await self._session.respond_error(call.request_id, code, message)

    async def end(self) -> None:
        """End the session and tell the dapp."""
        async with self._session.line.patiently("The relay did not end the session"):
            await self._session.end()

    async def emit(self, name: str, data: Any, chain: str) -> None:
        """Publish an event of the session."""
        event = {"event": {"name": name, "data": data}, "chainId": chain}
        async with self._session.line.patiently("The relay did not take the event"):
            await self._session.request("wc_sessionEvent", event)

    async def extend(self) -> int:
        """Extend the session to its full lifetime from now; returns its expiry in epoch milliseconds."""
        async with self._session.line.patiently("The relay did not take the extension"):
            await self._session.request("wc_sessionExtend", {})
        return self._session.extend() * 1_000

    async def ping(self, timeout: float | None) -> None:
        """Wait for the dapp's answer to a ping."""
        await self._session.ping(timeout)

    async def _publish_rejection(self) -> None:
        if self._asked.one_click is None:
            content = failed(self._asked.session_id, _USER_REJECTED, "User rejected.")
            await self._session.relay.publish(self._pairing, content, REJECTION)
        else:
            content = failed(self._asked.one_click.request_id, _USER_REJECTED, "User rejected.")
            topic = self._asked.one_click.responses(self._own)
            await self._session.relay.publish(topic, content, AUTHENTICATION_REJECTION)

    async def _authenticate(self, asked: OneClick, cacaos: Sequence[Mapping[str, Any]]) -> None:
        """Answer a `wc_sessionAuthenticate`. Without allowed methods there is no session."""
        self._namespaces = namespaces_of(cacaos)
        if self._namespaces:
            key = TopicKey(self._own.symmetric_key(asked.requester_public))
            self._session.key = key
            self._session.extend()
            await self._session.relay.subscribe(key, self._heard)
        result = one_click_result(cacaos, self._own, self._metadata)
        content = {"id": asked.request_id, "jsonrpc": "2.0", "result": result}
        await self._session.relay.publish(asked.responses(self._own), content, RESPONSES[AUTHENTICATE])
        if not self._namespaces:
            self._session.conversation.fail(SessionEndedError("The dapp asked for a sign-in alone."))

    async def _settle(self, namespaces: dict[str, Any], cacaos: Sequence[Mapping[str, Any]]) -> None:
        proposer = (await self._asked.session_asked())["proposer"]
        self._namespaces = namespaces
        key = TopicKey(self._own.symmetric_key(read_public_key(proposer.get("publicKey"))))
        self._session.key = key
        self._session.expires_s = int(time.time()) + SESSION_SECONDS
        self._session.relay.listen(key, self._heard)
        settlement_id = self._session.ids.next()
        self._settlement_id = str(settlement_id)
        settlement = write_request(settlement_id, "wc_sessionSettle", self._settlement(cacaos))
        answer = {"relay": {"protocol": "irn"}, "responderPublicKey": self._own.public.hex()}
        response = {"id": self._asked.session_id, "jsonrpc": "2.0", "result": answer}
        both = {
            "pairingTopic": self._pairing.topic,
            "sessionTopic": key.topic,
            "sessionProposalResponse": self._pairing.seal(response),
            "sessionSettlementRequest": key.seal(settlement),
        }
        await self._session.relay.call("wc_approveSession", both)

    def _settlement(self, cacaos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        settlement = {
            "relay": {"protocol": "irn"},
            "namespaces": self._namespaces,
            "controller": {"publicKey": self._own.public.hex(), "metadata": self._metadata},
            "expiry": self._session.expires_s,
        }
        if cacaos:
            settlement["proposalRequestsResponses"] = {"authentication": list(cacaos)}
        return settlement

    def _heard(self, content: dict[str, Any]) -> None:
        """Handle a message of the session's topic. An error for the settlement ends the session."""
        if str(content.get("id")) == self._settlement_id and isinstance(content.get("error"), dict):
            self._session.conversation.fail(SessionEndedError("The dapp refused the session."))
        else:
            self._session.heard(content)

    def _requested(self, content: dict[str, Any]) -> None:
        """Handle a call of the dapp. Raises BadPayloadError."""
        if content["method"] != "wc_sessionRequest":
            return
        asked, request_id = parameters(content), content.get("id")
        request, chain = asked.get("request"), asked.get("chainId")
        if not isinstance(request, dict) or not isinstance(request.get("method"), str):
            raise BadPayloadError("The call is not a JSON-RPC request.")
        method, expires_s = request["method"], request.get("expiryTimestamp")
        if isinstance(expires_s, int) and expires_s < time.time():
            _log.warning("call %s came after it had expired", request_id)
        elif not isinstance(chain, str) or not allows_call(self._namespaces, chain, method):
            _log.warning(
                "call %s of %s is refused: the session has not that method there", request_id, method
            )
            refusal = self._session.respond_error(request_id, UNAUTHORIZED_METHOD, "Unauthorized method.")
            self._session.in_background(refusal)
        else:
            call = Call(str(request_id), method, request.get("params", []), request_id, chain)
            self._session.conversation.called(call)
