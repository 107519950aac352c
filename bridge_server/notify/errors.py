"""Errors of the notification service."""

from collections.abc import Sequence

from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.projects.errors import wrong_type
from bridge_server.projects.models import TypeId


class UnknownTypeError(InvalidInputError):
    """The project does not have the type of the notification."""

    def __init__(self, known: Sequence[TypeId]) -> None:
        super().__init__(
            "The project has no notification type of this id: see #/notification/type.",
            [Fault("#/notification/type", wrong_type(known))],
        )
