"""The requests of a dapp on the pairing's topic: a session, or a sign-in and a session by one signature."""

import logging
from collections.abc import Mapping
from typing import Any

from bridge_server.client.session.authentication import Authentication, read_authentications
from bridge_server.client.session.contents import Proposal
from bridge_server.client.session.conversation import Conversation
from bridge_server.client.session.errors import BadPayloadError
from bridge_server.client.v2.keys import read_public_key
from bridge_server.client.v2.methods import AUTHENTICATE
from bridge_server.client.v2.one_click import OneClick, read_one_click
from bridge_server.client.v2.session import parameters
from bridge_server.client.v2.uri import RelayPairing

_log = logging.getLogger(__name__)


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
        metadata = peer.get("metadata")
        known = metadata if isinstance(metadata, dict) else {}
        name, url = str(known.get("name") or ""), str(known.get("url") or "")
        self._conversation.proposed(Proposal(name, url, asked, authentications))


def _authentications(asked: dict[str, Any]) -> tuple[Authentication, ...]:
    """The sign-ins of a proposal; none if they cannot be read, for the session can still be approved."""
    try:
        return read_authentications(asked)
    except BadPayloadError as error:
        _log.warning("the sign-in of a proposal cannot be read: %s", error)
        return ()
