"""Failures of the record of requests."""

from bridge_server.kernel.errors import LimitError, NotFoundError


class NoTrafficError(NotFoundError):
    """The server keeps no record of requests."""

    code = "traffic-off"
    title = "The record of requests is off"

    def __init__(self) -> None:
        super().__init__("The server keeps no record of requests: set traffic = on, and start it again.")


class RequestNotKeptError(NotFoundError):
    """The number names no request, or none that is still kept."""

    code = "request-not-kept"
    title = "The request is not kept"

    def __init__(self, most: int) -> None:
        super().__init__(f"No request of this number is among the last {most}.")


class TooManyFollowersError(LimitError):
    """The limit of open streams is reached."""

    code = "too-many-streams"
    title = "Too many open streams"

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} streams of requests are open, and may be no more. Close one first.", 10)
