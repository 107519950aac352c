"""The client library: `Dapp` and `Wallet` for programs and tests, `Notifier` for the backend of an app.

The server does not import it. Each way to the bridge has a folder with both sides: `http` for the plain
bridge and generation 0.7, `v1` and `v2` for generations 1.x and 2.x. `notify` is the backend's side.
"""

from bridge_server.client.dapp import Dapp
from bridge_server.client.generations import Generation
from bridge_server.client.notify.notifier import Notifier
from bridge_server.client.notify.results import FailedAccount, NotifyProgress, NotifyResult, SubscribedAccount
from bridge_server.client.session.authentication import Authentication
from bridge_server.client.session.cipher import Cipher
from bridge_server.client.session.contents import Approval, Call, Event, Proposal, Push
from bridge_server.client.session.errors import (
    AnswerTimeoutError,
    BadAnswerError,
    BadPairingError,
    BadPayloadError,
    BridgeClientError,
    BridgeUnreachableError,
    CallExpiredError,
    CallFailedError,
    RejectedError,
    RequestRefusedError,
    SessionEndedError,
    UnsupportedError,
)
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.pairing import Pairing, parse_pairing
from bridge_server.client.wallet import Wallet

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
