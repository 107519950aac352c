"""Errors of the notification service."""

from collections.abc import Sequence

from bridge_server.kernel.errors import Fault, InvalidInputError, NotFoundError
from bridge_server.projects.errors import wrong_type
from bridge_server.projects.models import TypeId


class UnknownTypeError(InvalidInputError):
    """The project does not have the type of the notification."""

    def __init__(self, known: Sequence[TypeId]) -> None:
        super().__init__(
            "The project has no notification type of this id: see #/notification/type.",
            [Fault("#/notification/type", wrong_type(known))],
        )


class UnknownAudienceError(InvalidInputError):
    """The project does not have the type whose subscribers are meant."""

    def __init__(self, known: Sequence[TypeId]) -> None:
        super().__init__(
            "The project has no notification type of this id: see #/audience/type.",
            [Fault("#/audience/type", wrong_type(known))],
        )


class NotificationNotFoundError(NotFoundError):
    """The project has not sent a notification of this number, or it is not kept any more."""

    code = "notification-not-found"
    title = "Notification not found"

    def __init__(self) -> None:
        super().__init__("The project has no notification of this number.")
