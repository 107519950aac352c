"""Errors of projects, notification types and subscriptions."""

from collections.abc import Sequence

from bridge_server.kernel.errors import ConflictError, Fault, InvalidInputError, NotFoundError
from bridge_server.projects.models import TypeId

_TYPES_NAMED = 20


def listed(types: Sequence[TypeId]) -> str:
    """A list of types for a sentence, with at most 20 of them named."""
    others = len(types) - _TYPES_NAMED
    return (", ".join(types[:_TYPES_NAMED]) or "none") + (f" and {others} more" if others > 0 else "")


def wrong_type(known: Sequence[TypeId]) -> str:
    """The fault of a type that the project does not have."""
    return f"names no notification type of the project, which has {listed(known)}"


class ProjectNotFoundError(NotFoundError):
    """There is no project of this id."""

    code = "project-not-found"
    title = "Project not found"

    def __init__(self) -> None:
        super().__init__("There is no project of this id.")


class ProjectExistsError(ConflictError):
    """The project id is taken."""

    code = "project-exists"
    title = "The project exists already"

    def __init__(self) -> None:
        super().__init__("There is a project of this id already. Choose another id, or leave it out.")


class SecretNotFoundError(NotFoundError):
    """The project has no secret of this number."""

    code = "secret-not-found"
    title = "Secret not found"

    def __init__(self) -> None:
        super().__init__("The project has no secret of this number. Showing the project lists its secrets.")


class TooManySecretsError(ConflictError):
    """The project has reached the limit of live secrets."""

    code = "too-many-secrets"
    title = "Too many secrets"

    def __init__(self, limit: int) -> None:
        super().__init__(f"The project has {limit} live secrets. Revoke the old one before you make another.")


class TypeNotFoundError(NotFoundError):
    """The project has no notification type of this id."""

    code = "type-not-found"
    title = "Notification type not found"

    def __init__(self) -> None:
        super().__init__("The project has no notification type of this id.")


class TypeExistsError(ConflictError):
    """The project has a notification type of this id."""

    code = "type-exists"
    title = "The notification type exists already"

    def __init__(self) -> None:
        super().__init__(
            "The project has a notification type of this id already. Rename that, or choose another id."
        )


class TooManyTypesError(ConflictError):
    """The project has reached the limit of notification types."""

    code = "too-many-types"
    title = "Too many notification types"

    def __init__(self, limit: int) -> None:
        super().__init__(f"The project has {limit} notification types, which is the limit.")


class SubscriptionNotFoundError(NotFoundError):
    """The account is not subscribed to the project."""

    code = "subscription-not-found"
    title = "Subscription not found"

    def __init__(self) -> None:
        super().__init__("The account is not subscribed to this project.")


class UnknownTypesError(InvalidInputError):
    """A subscription names types that the project does not have."""

    def __init__(self, places: Sequence[int], known: Sequence[TypeId]) -> None:
        wrong = wrong_type(known)
        faults = [Fault(f"#/notification_types/{place}", wrong) for place in places]
        super().__init__("The project does not have every notification type that is named.", faults)
