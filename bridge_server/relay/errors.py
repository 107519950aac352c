"""The failures of the relay."""

from bridge_server.kernel.errors import LimitError, NotFoundError


class SessionNotFoundError(NotFoundError):
    """The session id names nothing, or nothing any more."""

    code = "session-not-found"
    title = "Session not found"

    def __init__(self) -> None:
        super().__init__("No such session, or it has expired or was ended. Open one with POST /session/new.")


class CallNotFoundError(NotFoundError):
    """The call id names nothing, or nothing any more."""

    code = "call-not-found"
    title = "Call not found"

    def __init__(self) -> None:
        super().__init__("No such call, or it has expired or its session was ended.")


class TooManyPendingCallsError(LimitError):
    """The wallet has not answered the calls that are there."""

    code = "too-many-pending-calls"
    title = "Too many pending calls"

    def __init__(self, limit: int, retry_after_seconds: int) -> None:
        super().__init__(
            f"The session has {limit} calls without a status, and may have no more. Wait for the wallet.",
            retry_after_seconds,
        )
