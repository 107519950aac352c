"""Failures of a connection or a call. `tag` is the name that the Rust types give the failure."""

from bridge_server.kernel.errors import (
    InvalidInputError,
    LimitError,
    NotAuthenticatedError,
    TooLargeError,
)

_RETRY_SECONDS = 10


class InvalidTokenError(NotAuthenticatedError):
    """A client has no valid token."""

    code = "invalid-relay-token"
    title = "The relay token is not valid"

    def __init__(self) -> None:
        super().__init__(
            "Connect with a JWT of EdDSA (Ed25519), in the query parameter «auth» or as a bearer token. Its "
            "iss must be the did:key that signed it, iat and exp must be right within 120 s, and aud must be "
            "this server's URL where the server checks that."
        )


class ProjectNotAllowedError(InvalidInputError):
    """The server lists the projects that may connect, and the client names another or none."""

    code = "project-not-allowed"
    title = "The project is not allowed"

    def __init__(self) -> None:
        super().__init__("This relay serves other projects. Check projectId with its operator.")


class InvalidCallError(InvalidInputError):
    """A call has a wrong id, method or parameter."""

    code = "invalid-call"
    title = "The call is not valid"

    def __init__(self, tag: str, detail: str) -> None:
        super().__init__(detail)
        self.tag = tag


class MessageTooLargeError(TooLargeError):
    """A message is larger than a message may be."""

    code = "message-too-large"
    title = "The message is too large"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"A message may have at most {limit_bytes} bytes. Send less.")


class TimeToLiveError(InvalidInputError):
    """The lifetime of a message is 0, or too long to make sense."""

    code = "invalid-ttl"
    title = "The time to live is not valid"

    def __init__(self, tag: str) -> None:
        super().__init__("ttl must be from 1 to 4294967295 seconds; more than 30 days count as 30 days.")
        self.tag = tag


class TooManySubscriptionsError(LimitError):
    """The client is subscribed to as many topics as it may be."""

    code = "too-many-subscriptions"
    title = "Too many subscriptions"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"A client may be subscribed to {limit} topics. Unsubscribe from one first.", _RETRY_SECONDS
        )


class SubscriptionBytesError(LimitError):
    """The client's address has stored as many subscriptions as it may for now."""

    code = "subscription-bytes"
    title = "Too many new subscriptions"

    def __init__(self) -> None:
        super().__init__("Your address has made too many new subscriptions. Try again later.", _RETRY_SECONDS)
