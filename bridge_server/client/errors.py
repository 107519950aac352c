"""What can go wrong between a dapp, a wallet and their bridge."""

from typing import Any


class BridgeClientError(Exception):
    """Every failure that the client names."""


class BadPairingError(BridgeClientError, ValueError):
    """A pairing, or its URI, that cannot be used. The text says what is wrong, and never the key."""


class BadPayloadError(BridgeClientError):
    """A payload that cannot be read: another key, touched on its way, or not what was expected."""


class SessionEndedError(BridgeClientError):
    """The bridge has no such session: it was ended, has expired, or is another bridge's."""


class CallExpiredError(BridgeClientError):
    """The bridge has forgotten the call, though not its session."""


class RejectedError(BridgeClientError):
    """The wallet does not approve the session."""


class CallFailedError(BridgeClientError):
    """The wallet answered the call with an error, as JSON-RPC has it (EIP-1193: 4001 is the user's no)."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class AnswerTimeoutError(BridgeClientError, TimeoutError):
    """The bridge is there, but the other side did not answer in time."""


class BridgeUnreachableError(BridgeClientError):
    """No connection, no answer, or nothing but 429 and 5xx until the time was up."""


class UnsupportedError(BridgeClientError):
    """The session's generation of the protocol has nothing like it."""


class BadAnswerError(BridgeClientError):
    """What answered does not speak the bridge's protocol."""


class RequestRefusedError(BridgeClientError):
    """The bridge refused the request, and would again; if it told, until `retry_after_seconds` are over."""

    def __init__(self, status: int, detail: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(f"The bridge answered {status}: {detail}")
        self.status = status
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds
