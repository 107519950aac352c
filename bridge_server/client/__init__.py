"""The client library: `Dapp` and `Wallet`, for programs and tests. The server does not import it."""

from bridge_server.client.cipher import Cipher
from bridge_server.client.contents import Approval, Call, Push
from bridge_server.client.dapp import Dapp
from bridge_server.client.errors import (
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
)
from bridge_server.client.pace import Pace
from bridge_server.client.pairing import Pairing, parse_pairing
from bridge_server.client.wallet import Wallet

__all__ = [
    "AnswerTimeoutError",
    "Approval",
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
    "Pace",
    "Pairing",
    "Push",
    "RejectedError",
    "RequestRefusedError",
    "SessionEndedError",
    "Wallet",
    "parse_pairing",
]
