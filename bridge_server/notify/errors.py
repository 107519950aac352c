"""What can go wrong with a notification."""

from bridge_server.kernel.errors import Fault, InvalidInputError

_FAULT = Fault("#/notification/type", "names no notification type of the project")


class UnknownTypeError(InvalidInputError):
    """The notification is of a type that the project does not have."""

    def __init__(self) -> None:
        super().__init__(
            "The project has no notification type of this id: see #/notification/type.", [_FAULT]
        )
