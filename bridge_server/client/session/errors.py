"""Errors of the client library."""

from typing import Any


class BridgeClientError(Exception):
    """The base of every error of the client library."""


class BadPairingError(BridgeClientError, ValueError):
    """A pairing or its URI is not valid. The text says why, without the key."""


class BadPayloadError(BridgeClientError):
    """A payload cannot be read: it has another key, was modified, or has an unexpected content."""


class SessionEndedError(BridgeClientError):
    """The bridge has no such session: it was ended, has expired, or belongs to another bridge."""


class CallExpiredError(BridgeClientError):
    """The call has expired, but its session has not."""


class RejectedError(BridgeClientError):
    """The wallet does not approve the session."""


class CallFailedError(BridgeClientError):
    """The wallet answered the call with a JSON-RPC error (EIP-1193: 4001 means rejected by the user)."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class AnswerTimeoutError(BridgeClientError, TimeoutError):
    """The bridge works, but the other side did not answer in time."""


class BridgeUnreachableError(BridgeClientError):
    """No connection, no answer, or only 429 and 5xx until the timeout."""


class UnsupportedError(BridgeClientError):
    """The session's generation of the protocol does not have this feature."""


class BadAnswerError(BridgeClientError):
    """The server at the URL does not speak the bridge's protocol."""


class RequestRefusedError(BridgeClientError):
    """The bridge refused the request. A retry is useless, or has to wait for `retry_after_seconds`."""

    def __init__(self, status: int, detail: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(f"The bridge answered {status}: {detail}")
        self.status = status
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds
