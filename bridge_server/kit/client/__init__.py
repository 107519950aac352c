"""The client library: `Dapp` and `Wallet` for programs and tests, `Notifier` for the backend of an app.

The server does not import it. Both sides of a session are in `http` for the plain bridge and generation 0.7,
and in `v1` and `v2` for generations 1.x and 2.x, over a WebSocket. `notifier` is the side of the
backend.
"""

from bridge_server.kit.client.authentication import Authentication
from bridge_server.kit.client.dapp_and_wallet import Dapp, Generation, Wallet
from bridge_server.kit.client.errors import (
    AnswerTimeoutError,
    BadAnswerError,
    BadPairingError,
    BadPayloadError,
    BridgeClientError,
    BridgeUnreachableError,
    CallExpiredError,
    CallFailedError,
    Pace,
    RejectedError,
    RequestRefusedError,
    SessionEndedError,
    UnsupportedError,
)
from bridge_server.kit.client.notifier import (
    FailedAccount,
    Notifier,
    NotifyProgress,
    NotifyResult,
    SubscribedAccount,
)
from bridge_server.kit.client.pairing import Cipher, Pairing, parse_pairing
from bridge_server.kit.client.payloads import Approval, Call, Event, Proposal, Push

__all__ = [
    "AnswerTimeoutError",
    "Approval",
    "Authentication",
    "BadAnswerError",
    "BadPairingError",
    "BadPayloadError",
    "BridgeClientError",
    "BridgeUnreachableError",
    "Call",
    "CallExpiredError",
    "CallFailedError",
    "Cipher",
    "Dapp",
    "Event",
    "FailedAccount",
    "Generation",
    "Notifier",
    "NotifyProgress",
    "NotifyResult",
    "Pace",
    "Pairing",
    "Proposal",
    "Push",
    "RejectedError",
    "RequestRefusedError",
    "SessionEndedError",
    "SubscribedAccount",
    "UnsupportedError",
    "Wallet",
    "parse_pairing",
]
