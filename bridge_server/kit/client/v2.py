"""Generation 2.x: both sides of a session (docs/connect.md)."""

import logging
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import replace
from secrets import token_bytes
from typing import Any

from bridge_server.kit.client.authentication import (
    Authentication,
    namespaces_of,
    read_authentications,
    sound_authentication,
    write_authentication,
)
from bridge_server.kit.client.errors import (
    BadPayloadError,
    RejectedError,
    SessionEndedError,
    UnsupportedError,
)
from bridge_server.kit.client.pairing import Pairing
from bridge_server.kit.client.payloads import (
    Call,
    Event,
    Proposal,
    Push,
    read_metadata,
    rejection_of,
    write_request,
)
from bridge_server.kit.client.v2_protocol import (
    AUTHENTICATE,
    AUTHENTICATION_REJECTION,
    KEY_BYTES,
    METHOD_UNSUPPORTED,
    PROPOSAL_SECONDS,
    REJECTION,
    REQUEST_SECONDS,
    REQUESTS,
    RESPONSES,
    KeyPair,
    OneClick,
    OwnResponses,
    RelayPairing,
    TopicKey,
    allows_call,
    approved,
    first_chain,
    one_click_result,
    read_approval,
    read_one_click,
    read_one_click_answer,
    read_public_key,
    sound_proposal,
    verified_cacaos,
    write_one_click,
)
from bridge_server.kit.client.v2_session import RelaySession, failed, parameters
from bridge_server.kit.client.websocket import Conversation, Line

_NOT_TAKEN = "The relay did not take the answer"
_SETTLEMENT_FAILED = 7_000
_USER_REJECTED = 5000
_UNAUTHORIZED_METHOD = 3001

_log = logging.getLogger(__name__)


class RelayDapp(RelaySession):
    """A dapp whose `open` publishes a proposal. The methods are described in `Dapp`."""

    def __init__(
        self,
        line: Line,
        project_id: str | None,
        metadata: dict[str, Any],
        namespaces: Mapping[str, Any],
        authentication: Authentication | None,
        one_click: bool,
    ) -> None:
        super().__init__(line, project_id)
        self._namespaces = sound_proposal(namespaces)
        self._metadata = metadata
        self._authentication = None if authentication is None else sound_authentication(authentication)
        self._one_click = self._authentication if one_click else None
        methods = () if self._one_click is None else (AUTHENTICATE,)
        self._pairing = RelayPairing(token_bytes(KEY_BYTES), int(time.time()) + PROPOSAL_SECONDS, methods)
        self._own = KeyPair()
        self._proposal_id = self.ids.next()
        self._one_click_id = self.ids.next()

    @property
    def pairing(self) -> Pairing:
        raise UnsupportedError("A pairing of generation 2.x names no bridge and no session: use uri.")

    @property
    def uri(self) -> str:
        return self._pairing.uri

    async def open(self) -> None:
        """Publish the proposal, behind a sign-in if one is asked for."""
        key = self._pairing.topic_key
        self.listen(key, self._paired)
        self.line.open(self)
        proposal = key.seal(write_request(self._proposal_id, "wc_sessionPropose", self._proposal()))
        async with self.line.patiently("The relay did not take the proposal"):
            if self._one_click is not None:
                await self.subscribe(OwnResponses(self._own), self._authenticated)
                sign_in = write_one_click(self._one_click, self._own.public, self._metadata)
                request = write_request(self._one_click_id, AUTHENTICATE, sign_in)
                await self.publish(key, request, REQUESTS[AUTHENTICATE])
            asked = {"pairingTopic": key.topic, "sessionProposal": proposal, "ttl": PROPOSAL_SECONDS}
            await self.call_relay("wc_proposeSession", asked)

    async def request(self, method: str, params: Any, timeout: float | None, chain: str | None) -> str:
        async with self.line.bridge_within(timeout, "The relay did not take the call"):
            approval = await self.conversation.approval_given()
            self.open_key()
            expires_s = int(time.time()) + REQUEST_SECONDS
            request = {"method": method, "params": params, "expiryTimestamp": expires_s}
            chosen = chain or first_chain(approval.namespaces)
            return await self.ask("wc_sessionRequest", {"request": request, "chainId": chosen})

    def events(self) -> AsyncGenerator[Event, None]:
        return self.conversation.each(self.conversation.fresh_events)

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

    def _is_awaited(self, content: dict[str, Any], request_id: int) -> bool:
        is_decided = self.key is not None or self.conversation.approval is not None
        return content.get("id") == request_id and not is_decided

    def _authenticated(self, content: dict[str, Any]) -> None:
        error = content.get("error")
        if self._one_click is None or not self._is_awaited(content, self._one_click_id):
            return
        if isinstance(error, dict):
            if error.get("code") != METHOD_UNSUPPORTED:
                self.conversation.fail(RejectedError(rejection_of(error)))
            return
        try:
            peer_public, approval = read_one_click_answer(content.get("result"), self._one_click)
            key = TopicKey(self._own.symmetric_key(peer_public))
        except BadPayloadError as failure:
            self.conversation.fail(failure)
            return
        if approval.namespaces:
            self.key = key
            self.renew()
            self.in_background(self.subscribe(key, self.heard))
        self.conversation.approved(approval)

    def _paired(self, content: dict[str, Any]) -> None:
        """Handle the answer to the proposal. Raises BadPayloadError."""
        if not self._is_awaited(content, self._proposal_id):
            return
        error, result = content.get("error"), content.get("result")
        if isinstance(error, dict):
            self.conversation.fail(RejectedError(rejection_of(error)))
        elif isinstance(result, dict):
            peer_public = read_public_key(result.get("responderPublicKey"))
            key = self.key = TopicKey(self._own.symmetric_key(peer_public))
            self.in_background(self.subscribe(key, self.heard))
        else:
            raise BadPayloadError("The answer to the proposal has neither a result nor an error.")

    def requested(self, content: dict[str, Any]) -> None:
        match content["method"]:
            case "wc_sessionSettle":
                self._settled(content)
            case "wc_sessionUpdate" if (former := self.conversation.approval) is not None:
                updated = replace(read_approval(parameters(content)), cacaos=former.cacaos)
                self.conversation.approved(updated)
                self.confirm(content.get("id"), "wc_sessionUpdate")
            case "wc_sessionEvent":
                happened = parameters(content)
                event, chain = happened.get("event"), happened.get("chainId")
                if not isinstance(event, dict) or not isinstance(chain, str):
                    raise BadPayloadError("The event has no name and chain.")
                self.conversation.happened(Event(str(event.get("name")), event.get("data"), chain))

    def _settled(self, content: dict[str, Any]) -> None:
        settled, request_id = parameters(content), content.get("id")
        approval = read_approval(settled)
        try:
            approval = replace(approval, cacaos=self._signed_in(settled))
        except BadPayloadError as failure:
            if self.key is not None and self.conversation.approval is None:
                refusal = failed(request_id, _SETTLEMENT_FAILED, str(failure))
                self.in_background(self.publish(self.key, refusal, RESPONSES["wc_sessionSettle"]))
                self.conversation.fail(failure)
            raise
        expires_s = settled.get("expiry")
        self.expires_s = expires_s if isinstance(expires_s, int) else None
        self.conversation.approved(approval)
        self.confirm(request_id, "wc_sessionSettle")

    def _signed_in(self, settled: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
        """The verified CACAOs of a settlement, if the wallet signed in. Raises BadPayloadError."""
        responses = settled.get("proposalRequestsResponses")
        cacaos = responses.get("authentication") if isinstance(responses, dict) else None
        if not cacaos or self._authentication is None or self._one_click is not None:
            return ()
        return verified_cacaos(cacaos, self._authentication)


class RelayWallet(RelaySession):
    """A wallet that has scanned a pairing URI of generation 2.x. The methods are described in `Wallet`."""

    def __init__(
        self, pairing: RelayPairing, line: Line, project_id: str | None, metadata: dict[str, Any]
    ) -> None:
        super().__init__(line, project_id)
        self._pairing = pairing.topic_key
        self._metadata = metadata
        self._own = KeyPair()
        self._asked = PairingRequests(pairing, self.conversation)
        self._settlement_id = ""
        self._namespaces: dict[str, Any] = {}
        self._answered = False

    @property
    def pairing(self) -> Pairing:
        raise UnsupportedError("A pairing of generation 2.x names no bridge and no session.")

    @property
    def topic(self) -> str:
        return self.open_key().topic

    async def open(self) -> None:
        self.listen(self._pairing, self._asked.heard)
        self.line.open(self)

    async def proposal(self, timeout: float | None) -> Proposal:
        async with self.line.within(timeout, "The dapp did not propose a session"):
            return await self.conversation.proposal_made()

    async def approve(
        self,
        accounts: Iterable[str],
        chain_id: int,
        push: Push | None,
        cacaos: Sequence[Mapping[str, Any]] = (),
    ) -> int | None:
        if push is not None:
            raise UnsupportedError("Generation 2.x registers webhooks with POST /subscribe, not here.")
        proposal = await self.proposal(self.line.pace.patience_seconds)
        namespaces = approved(proposal.content, accounts, chain_id)
        async with self.line.patiently("The relay did not take the wallet's word"):
            if self._answered:
                self._namespaces = namespaces
                await self.ask("wc_sessionUpdate", {"namespaces": namespaces})
            elif self._asked.one_click is not None and cacaos:
                await self._authenticate(self._asked.one_click, cacaos)
            else:
                await self._settle(namespaces, cacaos)
            self._answered = True
        expires_s = self.expires_s
        return None if expires_s is None else expires_s * 1_000

    async def reject(self) -> None:
        await self.proposal(self.line.pace.patience_seconds)
        async with self.line.patiently("The relay did not take the wallet's word"):
            one_click = self._asked.one_click
            request_id = self._asked.session_id if one_click is None else one_click.request_id
            content = failed(request_id, _USER_REJECTED, "User rejected.")
            if one_click is None:
                await self.publish(self._pairing, content, REJECTION)
            else:
                await self.publish(one_click.responses(self._own), content, AUTHENTICATION_REJECTION)
        self.conversation.fail(SessionEndedError("This side rejected the session."))

    async def answer(self, call: Call, result: Any) -> None:
        async with self.line.patiently(_NOT_TAKEN):
            await self.respond(call.request_id, result)

    async def refuse(self, call: Call, code: int, message: str) -> None:
        async with self.line.patiently(_NOT_TAKEN):
            await self.respond_error(call.request_id, code, message)

    async def emit(self, name: str, data: Any, chain: str) -> None:
        event = {"event": {"name": name, "data": data}, "chainId": chain}
        async with self.line.patiently("The relay did not take the event"):
            await self.ask("wc_sessionEvent", event)

    async def extend(self) -> int:
        async with self.line.patiently("The relay did not take the extension"):
            await self.ask("wc_sessionExtend", {})
        return self.renew() * 1_000

    async def _authenticate(self, asked: OneClick, cacaos: Sequence[Mapping[str, Any]]) -> None:
        """Answer a `wc_sessionAuthenticate`. Without allowed methods there is no session."""
        self._namespaces = namespaces_of(cacaos)
        if self._namespaces:
            key = self.key = TopicKey(self._own.symmetric_key(asked.requester_public))
            self.renew()
            await self.subscribe(key, self.heard)
        result = one_click_result(cacaos, self._own, self._metadata)
        content = {"id": asked.request_id, "jsonrpc": "2.0", "result": result}
        await self.publish(asked.responses(self._own), content, RESPONSES[AUTHENTICATE])
        if not self._namespaces:
            self.conversation.fail(SessionEndedError("The dapp asked for a sign-in alone."))

    async def _settle(self, namespaces: dict[str, Any], cacaos: Sequence[Mapping[str, Any]]) -> None:
        proposer = (await self._asked.session_asked())["proposer"]
        self._namespaces = namespaces
        key = self.key = TopicKey(self._own.symmetric_key(read_public_key(proposer.get("publicKey"))))
        self.renew()
        self.listen(key, self.heard)
        settlement_id = self.ids.next()
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
        await self.call_relay("wc_approveSession", both)

    def _settlement(self, cacaos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        settlement = {
            "relay": {"protocol": "irn"},
            "namespaces": self._namespaces,
            "controller": {"publicKey": self._own.public.hex(), "metadata": self._metadata},
            "expiry": self.expires_s,
        }
        if cacaos:
            settlement["proposalRequestsResponses"] = {"authentication": list(cacaos)}
        return settlement

    def heard(self, content: dict[str, Any]) -> None:
        """Handle a message of the session's topic. An error for the settlement ends the session."""
        if str(content.get("id")) == self._settlement_id and isinstance(content.get("error"), dict):
            self.conversation.fail(SessionEndedError("The dapp refused the session."))
        else:
            super().heard(content)

    def requested(self, content: dict[str, Any]) -> None:
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
            self.in_background(self.respond_error(request_id, _UNAUTHORIZED_METHOD, "Unauthorized method."))
        else:
            call = Call(str(request_id), method, request.get("params", []), request_id, chain)
            self.conversation.called(call)


# The requests of a dapp on the pairing's topic: a session, or a sign-in and a session by one signature.


class PairingRequests:
    """The requests of the dapp behind one URI; the first of each kind counts.

    If the URI names `wc_sessionAuthenticate`, the conversation has that as its proposal. The dapp's
    `wc_sessionPropose` is then for a wallet that approves the session without a sign-in.
    """

    def __init__(self, pairing: RelayPairing, conversation: Conversation) -> None:
        self._expects_one_click = AUTHENTICATE in pairing.methods
        self._conversation = conversation
        self.one_click: OneClick | None = None
        self.session: dict[str, Any] | None = None
        """The parameters of the `wc_sessionPropose`."""
        self.session_id: Any = None
        """The id of the `wc_sessionPropose`."""

    def heard(self, content: dict[str, Any]) -> None:
        """Handle a message of the pairing's topic. Raises BadPayloadError."""
        match content.get("method"):
            case "wc_sessionAuthenticate" if self.one_click is None:
                self._asked_one_click(content)
            case "wc_sessionPropose" if self.session is None:
                self._proposed(content)

    async def session_asked(self) -> Mapping[str, Any]:
        """Wait for the parameters of the `wc_sessionPropose`."""
        return await self._conversation.until(lambda: self.session)

    def _asked_one_click(self, content: dict[str, Any]) -> None:
        try:
            asked = read_one_click(content.get("id"), parameters(content))
        except BadPayloadError:  # the proposal is left
            self._expects_one_click = False
            if self.session is not None:
                self._announce(self.session["proposer"], self.session, ())
            raise
        self.one_click = asked
        self._announce(asked.requester, asked.proposal, (asked.authentication,))

    def _proposed(self, content: dict[str, Any]) -> None:
        asked = parameters(content)
        proposer = asked.get("proposer")
        if not isinstance(proposer, dict):
            raise BadPayloadError("The proposal has no proposer.")
        read_public_key(proposer.get("publicKey"))
        self.session, self.session_id = asked, content.get("id")
        if self._expects_one_click:
            self._conversation.wake()
        else:
            self._announce(proposer, asked, _authentications(asked))

    def _announce(
        self, peer: Mapping[str, Any], asked: dict[str, Any], authentications: tuple[Authentication, ...]
    ) -> None:
        self._conversation.proposed(Proposal(*read_metadata(peer.get("metadata")), asked, authentications))


def _authentications(asked: dict[str, Any]) -> tuple[Authentication, ...]:
    """The sign-ins of a proposal; none if they cannot be read, for the session can still be approved."""
    try:
        return read_authentications(asked)
    except BadPayloadError as error:
        _log.warning("the sign-in of a proposal cannot be read: %s", error)
        return ()
