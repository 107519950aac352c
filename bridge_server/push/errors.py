"""What can go wrong with pushes."""

from bridge_server.kernel.errors import GoneError, NotFoundError, UnavailableError, UpstreamError


class TopicNotFoundError(NotFoundError):
    """Nobody is registered for the topic, or no longer."""

    code = "topic-not-found"
    title = "Topic not found"

    def __init__(self) -> None:
        super().__init__("Nobody is registered for this topic, or the registration has expired.")


class BridgeRefusedError(UpstreamError):
    """The bridge that was named does not take the subscription."""

    code = "bridge-refused"
    title = "The bridge refused"

    def __init__(self, reason: str) -> None:
        super().__init__(f"The bridge did not take the subscription: {reason}. Nothing is registered.")


class ProviderFailedError(UpstreamError):
    """The provider did not take the push. Why is the operator's to know, in the log."""

    code = "provider-failed"
    title = "The push provider failed"

    def __init__(self, reason: str) -> None:
        super().__init__("The provider did not take the push. The request id finds the reason in the log.")
        self.reason = reason


class TooManyPushesError(UnavailableError):
    """Providers are asked for as much as they are at once."""

    code = "too-many-pushes"
    title = "Too many pushes at once"

    def __init__(self) -> None:
        super().__init__("Too many pushes are waiting for their providers. Try again.")


class TokenDeadError(GoneError):
    """The provider calls the client's token dead."""

    code = "token-dead"
    title = "The push token is dead"

    def __init__(self) -> None:
        super().__init__("The provider knows this client no more, so its registration was removed.")
