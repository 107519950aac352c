"""Failures of an operator's work on stored messages."""

from bridge_server.kernel.errors import ConflictError, NotFoundError


class MessageNotFoundError(NotFoundError):
    """There is no such message: it never was, it was delivered, or it was dropped."""

    code = "message-not-found"
    title = "No such message"

    def __init__(self) -> None:
        super().__init__("The outbox has no such message: it was delivered or dropped, or never was.")


class AttemptNotFoundError(NotFoundError):
    """The attempt to deliver is not kept any more, or never was made."""

    code = "attempt-not-found"
    title = "No such attempt"

    def __init__(self) -> None:
        super().__init__("There is no such attempt: only the last ones are kept, and none after a restart.")


class MessageBeingSentError(ConflictError):
    """An attempt to deliver the message is under way."""

    code = "message-being-sent"
    title = "The message is being sent"

    def __init__(self) -> None:
        super().__init__("The message is being sent at this moment: look again in a few seconds.")
