"""`wc_sessionAuthenticate`: a sign-in and a session by one signature, in one request on the pairing's topic.

The dapp's public key has a topic for the response, which is sealed for it. A proposal follows the request,
for wallets that do not know it. Source: `authenticate` and `approveSessionAuthenticate` of sign-client 2.25.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bridge_server.client.session.authentication import (
    Authentication,
    read_authentication,
    write_authentication,
)
from bridge_server.client.session.cacaos import namespaces_of, verified
from bridge_server.client.session.contents import Approval
from bridge_server.client.session.errors import BadPayloadError
from bridge_server.client.session.recaps import methods_of, read_recap
from bridge_server.client.v2.envelope import PeerResponses
from bridge_server.client.v2.keys import KeyPair, read_public_key
from bridge_server.client.v2.methods import AUTHENTICATION_SECONDS
from bridge_server.client.v2.namespaces import read_approval

METHOD_UNSUPPORTED = 10_001
"""The error code of wallets that do not know the request: they answer the proposal."""


def write_one_click(asked: Authentication, public: bytes, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the request."""
    return {
        "authPayload": {"statement": "", "resources": [], **write_authentication(asked)},
        "requester": {"publicKey": public.hex(), "metadata": metadata},
        "expiryTimestamp": int(time.time()) + AUTHENTICATION_SECONDS,
    }


def read_one_click_answer(result: Any, asked: Authentication) -> tuple[bytes, Approval]:
    """The wallet's public key and its approval, whose CACAOs are verified. Raises BadPayloadError."""
    said = result if isinstance(result, dict) else {}
    responder, cacaos = said.get("responder"), verified_cacaos(said.get("cacaos"), asked)
    if not isinstance(responder, dict):
        raise BadPayloadError("The sign-in has no responder.")
    public = read_public_key(responder.get("publicKey"))
    content = {"namespaces": namespaces_of(cacaos), "controller": responder}
    if not content["namespaces"]:
        accounts = tuple(dict.fromkeys(each["p"]["iss"].rpartition(":")[2] for each in cacaos))
        return public, Approval(accounts, None, content, cacaos)
    read = read_approval(content)
    return public, Approval(read.accounts, read.chain_id, content, cacaos)


def verified_cacaos(cacaos: Any, asked: Authentication) -> tuple[Mapping[str, Any], ...]:
    """The CACAOs, at least one, each a valid answer to the request. Raises BadPayloadError."""
    if not isinstance(cacaos, list) or not cacaos:
        raise BadPayloadError("The wallet did not sign in.")
    wanted, now = write_authentication(asked), datetime.now(UTC)
    for cacao in cacaos:
        verified(cacao, wanted, now)
    return tuple(cacaos)


@dataclass(frozen=True, slots=True)
class OneClick:
    """A request as the wallet received it."""

    request_id: Any
    requester: Mapping[str, Any]
    requester_public: bytes
    authentication: Authentication

    def responses(self, own: KeyPair) -> PeerResponses:
        """The topic of the response."""
        return PeerResponses(own, self.requester_public)

    @property
    def proposal(self) -> dict[str, Any]:
        """The request as the parameters of a proposal."""
        recap = read_recap(self.authentication.resources)
        scope = {"chains": list(self.authentication.chains), "methods": methods_of(recap) if recap else []}
        return {
            "proposer": self.requester,
            "requiredNamespaces": {},
            "optionalNamespaces": {"eip155": {**scope, "events": ["chainChanged", "accountsChanged"]}},
            "requests": {"authentication": [write_authentication(self.authentication)]},
        }


def read_one_click(request_id: Any, asked: Mapping[str, Any]) -> OneClick:
    """Read the parameters of the request. Raises BadPayloadError."""
    requester = asked.get("requester")
    if not isinstance(requester, dict):
        raise BadPayloadError("The authentication has no requester.")
    public = read_public_key(requester.get("publicKey"))
    return OneClick(request_id, requester, public, read_authentication(asked.get("authPayload")))


def one_click_result(cacaos: Sequence[Mapping[str, Any]], own: KeyPair, metadata: Mapping[str, Any]) -> Any:
    """The result that answers the request."""
    return {"cacaos": list(cacaos), "responder": {"publicKey": own.public.hex(), "metadata": metadata}}
