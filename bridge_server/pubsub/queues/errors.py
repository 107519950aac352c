"""Failures that close a socket. Their details are reasons of close frames: at most 123 bytes."""

from bridge_server.kernel.errors import (
    InvalidInputError,
    LimitError,
    UnsupportedMediaError,
)

_RETRY_SECONDS = 10


class FrameNotJsonError(UnsupportedMediaError):
    """A frame is not JSON."""

    code = "not-json"
    title = "The frame is not JSON"

    def __init__(self, reason: str) -> None:
        super().__init__(f"The frame is not JSON: {reason}.")


class InvalidFrameError(InvalidInputError):
    """A frame is JSON, but no message."""

    code = "invalid-frame"
    title = "The frame is not valid"


class TooManyTopicsError(InvalidInputError):
    """A socket has subscribed to as many topics as it may."""

    code = "too-many-topics"
    title = "Too many topics"

    def __init__(self, limit: int) -> None:
        super().__init__(f"A socket may subscribe to {limit} topics, and no more.")


class TooManySocketsError(LimitError):
    """The address has as many open sockets as it may have."""

    code = "too-many-sockets"
    title = "Too many open sockets"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"Your address has {limit} open sockets, and may have no more. Close one first.", _RETRY_SECONDS
        )


class QueueFullError(LimitError):
    """The topic, or the address, has as many messages waiting as it may have."""

    code = "queue-full"
    title = "Too many waiting messages"

    def __init__(self, whose: str) -> None:
        super().__init__(
            f"Not taken: {whose} has as much waiting as it may have. Wait for the receiver.", _RETRY_SECONDS
        )
