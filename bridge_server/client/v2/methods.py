"""The lifetime, prompt and tag of each method of the sign protocol.

Source: `ENGINE_RPC_OPTS` of the published @walletconnect/sign-client 2.25.
"""

from dataclasses import dataclass

_FIVE_MINUTES = 300
_FIFTEEN_MINUTES = 900
_DAY = 86_400

REQUEST_SECONDS = _FIFTEEN_MINUTES
"""The lifetime of a call."""
PROPOSAL_SECONDS = _FIVE_MINUTES
"""The lifetime of a proposal, and of the pairing that carries it."""
AUTHENTICATION_SECONDS = 3_600
"""The lifetime of a `wc_sessionAuthenticate`."""
SESSION_SECONDS = 7 * _DAY
"""The lifetime of a session from its approval, and again from each extension."""


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """Parameters of an `irn_publish`. With `prompt` the relay notifies a sleeping wallet."""

    ttl: int
    tag: int
    prompt: bool = False


REQUESTS = {
    "wc_sessionPropose": PublishOptions(_FIVE_MINUTES, 1100, prompt=True),
    "wc_sessionSettle": PublishOptions(_FIVE_MINUTES, 1102),
    "wc_sessionUpdate": PublishOptions(_DAY, 1104),
    "wc_sessionExtend": PublishOptions(_DAY, 1106),
    "wc_sessionRequest": PublishOptions(REQUEST_SECONDS, 1108, prompt=True),
    "wc_sessionEvent": PublishOptions(_FIVE_MINUTES, 1110, prompt=True),
    "wc_sessionDelete": PublishOptions(_DAY, 1112),
    "wc_sessionPing": PublishOptions(_DAY, 1114),
    "wc_sessionAuthenticate": PublishOptions(AUTHENTICATION_SECONDS, 1116, prompt=True),
}
RESPONSES = {method: PublishOptions(request.ttl, request.tag + 1) for method, request in REQUESTS.items()}
REJECTION = PublishOptions(_FIVE_MINUTES, 1120)
"""The response that rejects a proposal."""
AUTHENTICATION_REJECTION = PublishOptions(_FIVE_MINUTES, 1118)
"""The response that rejects a `wc_sessionAuthenticate`."""
AUTHENTICATE = "wc_sessionAuthenticate"
