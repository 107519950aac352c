"""The dapp's side of generation 2.x."""

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from secrets import token_bytes
from typing import Any

import aiohttp

from bridge_server.client.session.authentication import (
    Authentication,
    sound_authentication,
    write_authentication,
)
from bridge_server.client.session.contents import Approval, Event, write_request
from bridge_server.client.session.errors import BadPayloadError, RejectedError, UnsupportedError
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.pairing import Pairing
from bridge_server.client.v2.envelope import OwnResponses, TopicKey
from bridge_server.client.v2.keys import KEY_BYTES, KeyPair, read_public_key
from bridge_server.client.v2.methods import (
    AUTHENTICATE,
    PROPOSAL_SECONDS,
    REQUEST_SECONDS,
    REQUESTS,
    RESPONSES,
)
from bridge_server.client.v2.namespaces import first_chain, read_approval, sound_proposal
from bridge_server.client.v2.one_click import (
    METHOD_UNSUPPORTED,
    read_one_click_answer,
    verified_cacaos,
    write_one_click,
)
from bridge_server.client.v2.session import RelaySession, failed, introduction, parameters
from bridge_server.client.v2.uri import RelayPairing

_SETTLEMENT_FAILED = 7_000


class RelayDapp:
    """A dapp whose `open` publishes a proposal."""

    def __init__(
        self,
        relay_url: str,
        name: str,
        url: str,
        namespaces: Mapping[str, Any],
        project_id: str | None,
        http: aiohttp.ClientSession | None,
        pace: Pace,
        authentication: Authentication | None = None,
        one_click: bool = False,
    ) -> None:
        self._namespaces = sound_proposal(namespaces)
        self._metadata = introduction(name, url)
        self._authentication = None if authentication is None else sound_authentication(authentication)
        self._one_click = self._authentication if one_click else None
        methods = () if self._one_click is None else (AUTHENTICATE,)
        self._pairing = RelayPairing(token_bytes(KEY_BYTES), int(time.time()) + PROPOSAL_SECONDS, methods)
        self._own = KeyPair()
        self._session = RelaySession(relay_url, project_id, http, pace, self._requested)
        self._proposal_id = self._session.ids.next()
        self._one_click_id = self._session.ids.next()

    @property
    def pairing(self) -> Pairing:
        """Raises UnsupportedError: a pairing of generation 2.x has no bridge and no session."""
        raise UnsupportedError("A pairing of generation 2.x names no bridge and no session: use uri.")

    @property
    def uri(self) -> str:
        """The URI that a wallet scans."""
        return self._pairing.uri

    async def open(self) -> None:
        """Publish the proposal, behind a sign-in. Raises BridgeUnreachableError, RequestRefusedError."""
        key = self._pairing.topic_key
        self._session.relay.listen(key, self._paired)
        self._session.line.open(self._session.relay)
        proposal = key.seal(write_request(self._proposal_id, "wc_sessionPropose", self._proposal()))
        async with self._session.line.patiently("The relay did not take the proposal"):
            await self._ask_one_click()
            asked = {"pairingTopic": key.topic, "sessionProposal": proposal, "ttl": PROPOSAL_SECONDS}
            await self._session.relay.call("wc_proposeSession", asked)

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    def within(self, seconds: float | None, missing: str) -> AbstractAsyncContextManager[None]:
        """Limit the time of the block."""
        return self._session.line.within(seconds, missing)

    async def approval(self, timeout: float | None) -> Approval:
        """Wait for the wallet's approval."""
        async with self.within(timeout, "The wallet did not answer"):
            return await self._session.conversation.approval_given()

    async def request(self, method: str, params: Any, timeout: float | None, chain: str | None) -> str:
        """Wait for the approval, and publish a call; returns its id."""
        async with self._session.line.bridge_within(timeout, "The relay did not take the call"):
            approval = await self._session.conversation.approval_given()
            self._session.open_key()
            expires_s = int(time.time()) + REQUEST_SECONDS
            request = {"method": method, "params": params, "expiryTimestamp": expires_s}
            chosen = chain or first_chain(approval.namespaces)
            return await self._session.request("wc_sessionRequest", {"request": request, "chainId": chosen})

    async def result(self, call_id: str, timeout: float | None) -> Any:
        """Wait for the answer to a call."""
        async with self.within(timeout, f"The wallet did not answer the call {call_id}"):
            return await self._session.conversation.result_of(call_id)

    async def end(self) -> None:
        """End the session and tell the wallet."""
        async with self._session.line.patiently("The relay did not end the session"):
            await self._session.end()

    async def ping(self, timeout: float | None) -> None:
        """Wait for the wallet's answer to a ping."""
        await self._session.ping(timeout)

    def updates(self) -> AsyncGenerator[Approval, None]:
        """Yield the wallet's updates as they arrive, until the session ends."""
        return self._session.conversation.next_updates()

    def events(self) -> AsyncGenerator[Event, None]:
        """Yield the wallet's events as they arrive, until the session ends."""
        return self._session.conversation.next_events()

    async def _ask_one_click(self) -> None:
        if self._one_click is None:
            return
        await self._session.relay.subscribe(OwnResponses(self._own), self._authenticated)
        asked = write_one_click(self._one_click, self._own.public, self._metadata)
        request = write_request(self._one_click_id, AUTHENTICATE, asked)
        await self._session.relay.publish(self._pairing.topic_key, request, REQUESTS[AUTHENTICATE])

    def _proposal(self) -> dict[str, Any]:
        proposal = {
            "requiredNamespaces": {},
            "optionalNamespaces": self._namespaces,
            "relays": [{"protocol": "irn"}],
            "proposer": {"publicKey": self._own.public.hex(), "metadata": self._metadata},
            "expiryTimestamp": self._pairing.expires_s,
            "pairingTopic": self._pairing.topic_key.topic,
        }
        if self._authentication is not None and self._one_click is None:
            proposal["requests"] = {"authentication": [write_authentication(self._authentication)]}
        return proposal

    def _authenticated(self, content: dict[str, Any]) -> None:
        """Handle the answer to a `wc_sessionAuthenticate`."""
        error = content.get("error")
        is_over = self._session.key is not None or self._session.conversation.approval is not None
        if content.get("id") != self._one_click_id or self._one_click is None or is_over:
            return
        if isinstance(error, dict):
            if error.get("code") != METHOD_UNSUPPORTED:
                self._session.conversation.fail(RejectedError(_reason(error)))
            return
        try:
            peer_public, approval = read_one_click_answer(content.get("result"), self._one_click)
            key = TopicKey(self._own.symmetric_key(peer_public))
        except BadPayloadError as failure:
            self._session.conversation.fail(failure)
            return
        if approval.namespaces:
            self._session.key = key
            self._session.extend()
            self._session.in_background(self._session.relay.subscribe(key, self._session.heard))
        self._session.conversation.approved(approval)

    def _paired(self, content: dict[str, Any]) -> None:
        """Handle the answer to the proposal. Raises BadPayloadError."""
        is_over = self._session.key is not None or self._session.conversation.approval is not None
        if content.get("id") != self._proposal_id or is_over:
            return
        error, result = content.get("error"), content.get("result")
        if isinstance(error, dict):
            self._session.conversation.fail(RejectedError(_reason(error)))
        elif isinstance(result, dict):
            peer_public = read_public_key(result.get("responderPublicKey"))
            key = self._session.key = TopicKey(self._own.symmetric_key(peer_public))
            self._session.in_background(self._session.relay.subscribe(key, self._session.heard))
        else:
            raise BadPayloadError("The answer to the proposal has neither a result nor an error.")

    def _requested(self, content: dict[str, Any]) -> None:
        """Handle a request of the wallet. Raises BadPayloadError."""
        match content["method"]:
            case "wc_sessionSettle":
                self._settled(content)
            case "wc_sessionUpdate" if self._session.conversation.approval is not None:
                self._session.conversation.approved(self._updated(parameters(content)))
                self._session.confirm(content.get("id"), "wc_sessionUpdate")
            case "wc_sessionEvent":
                self._session.conversation.happened(_event(parameters(content)))

    def _settled(self, content: dict[str, Any]) -> None:
        settled = parameters(content)
        approval = read_approval(settled)
        try:
            approval = replace(approval, cacaos=self._signed_in(settled))
        except BadPayloadError as failure:
            self._refuse_settlement(content.get("id"), failure)
            raise
        expires_s = settled.get("expiry")
        self._session.expires_s = expires_s if isinstance(expires_s, int) else None
        self._session.conversation.approved(approval)
        self._session.confirm(content.get("id"), "wc_sessionSettle")

    def _signed_in(self, settled: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
        """The verified CACAOs of a settlement, if the wallet signed in. Raises BadPayloadError."""
        responses = settled.get("proposalRequestsResponses")
        cacaos = responses.get("authentication") if isinstance(responses, dict) else None
        if not cacaos or self._authentication is None or self._one_click is not None:
            return ()
        return verified_cacaos(cacaos, self._authentication)

    def _updated(self, content: Mapping[str, Any]) -> Approval:
        former = self._session.conversation.approval
        return replace(read_approval(content), cacaos=() if former is None else former.cacaos)

    def _refuse_settlement(self, request_id: Any, failure: BadPayloadError) -> None:
        """End the session, and tell the wallet why."""
        if self._session.key is not None and self._session.conversation.approval is None:
            refusal = failed(request_id, _SETTLEMENT_FAILED, str(failure))
            how = RESPONSES["wc_sessionSettle"]
            self._session.in_background(self._session.relay.publish(self._session.key, refusal, how))
            self._session.conversation.fail(failure)


def _reason(error: Mapping[str, Any]) -> str:
    return str(error.get("message") or "The wallet does not approve the session.")


def _event(content: dict[str, Any]) -> Event:
    event, chain = content.get("event"), content.get("chainId")
    if not isinstance(event, dict) or not isinstance(chain, str):
        raise BadPayloadError("The event has no name and chain.")
    return Event(str(event.get("name")), event.get("data"), chain)
