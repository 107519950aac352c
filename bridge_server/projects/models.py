"""Models of projects, notification types and subscriptions. Days are whole days since the Unix epoch."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from enum import Enum
from itertools import chain, count
from typing import NamedTuple, NewType, TypeAlias

from bridge_server.kernel.errors import ConflictError, Fault, InvalidInputError, NotFoundError
from bridge_server.kernel.events import DomainEvent
from bridge_server.kernel.token_bucket import Limit
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.projects.caip10 import Account

ProjectId = NewType("ProjectId", str)
TypeId = NewType("TypeId", str)

ACCOUNT_LIMIT = "account"  # the name of the limit of notifications from one project to one account

NAME_MAX_CHARACTERS = 64
RESERVED_PROJECT_IDS = frozenset((
    "admin", "call-status", "compat", "console", "docs", "hello", "inbox", "info", "livez", "metrics", "new",
    "notify", "openapi.json", "openrpc.json", "push", "readyz", "rpc", "session", "subscribe", "subscribers",
    "v1",
))  # fmt: skip
"""The first segments of this server's paths, present and planned; a project id would collide with them."""

PROJECT_ID_PATTERN = "[a-z0-9-]{1,64}"
_PROJECT_ID = re.compile(PROJECT_ID_PATTERN, re.ASCII)
_TYPE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_ID_MAX_CHARACTERS = 64
_ROOM_BEFORE_NUMBER = _ID_MAX_CHARACTERS - 5
_NOT_IN_MADE_IDS = re.compile(r"[^a-z0-9]+")
_MOST_MADE_IDS = 100

_TYPES_NAMED = 20


@dataclass(frozen=True, slots=True)
class Webhook:
    """The webhook for changes of a project's subscriptions, and the secret that signs its messages."""

    url: str
    signing_secret: str = field(repr=False)


class Project(NamedTuple):
    """An app that sends notifications. `account_limit` is its rate limit per account; None: the server's."""

    number: int
    project_id: ProjectId
    name: str
    created_at_ms: int
    account_limit: Limit | None
    webhook: Webhook | None


@dataclass(frozen=True, slots=True)
class Publisher:
    """An authenticated project and the SHA-256 of its secret, which may be revoked during the request."""

    project: Project
    digest: bytes = field(repr=False)


class NotificationType(NamedTuple):
    """A kind of notification that accounts subscribe to."""

    type_id: TypeId
    name: str
    created_at_ms: int


class SecretInfo(NamedTuple):
    """The metadata of a live secret."""

    number: int
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A new secret. Only its digest is stored, so this is the only time that it is known."""

    number: int
    secret: str = field(repr=False)


class ProjectDetails(NamedTuple):
    """A project with its types, secrets and number of subscribers."""

    project: Project
    types: Sequence[NotificationType]
    secrets: Sequence[SecretInfo]
    subscribers: int


class Subscription(NamedTuple):
    """An account's subscription to types of a project; with `follows_all` also to types of later."""

    account: str
    types: tuple[TypeId, ...]
    subscribed_at_ms: int
    follows_all: bool


class NewSubscription(NamedTuple):
    """A wanted subscription: some types, or None for all types including later ones."""

    account: Account
    types: tuple[TypeId, ...] | None


class SubscriptionChange(Enum):
    """A change of a subscription. Its values stand in messages to the project's webhook."""

    SUBSCRIBED = "subscribed"
    UPDATED = "updated"
    UNSUBSCRIBED = "unsubscribed"


class SubscriptionEvent(NamedTuple):
    """A changed subscription, for the webhook. `number` orders a project's events, which may overtake."""

    change: SubscriptionChange
    project_id: ProjectId
    subscription: Subscription
    number: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class ReadFigures:
    """Counts of notifications that were sent, read by users, bulk-marked as read, and deleted unread."""

    sent: int
    read: int
    bulk_marked: int
    lapsed: int

    @property
    def read_rate(self) -> float | None:
        """Reads by users, divided by the notifications that were not bulk-marked; None if there are none."""
        counted = self.sent - self.bulk_marked
        return self.read / counted if counted else None

    def __add__(self, other: "ReadFigures") -> "ReadFigures":
        return ReadFigures(
            self.sent + other.sent,
            self.read + other.read,
            self.bulk_marked + other.bulk_marked,
            self.lapsed + other.lapsed,
        )


NO_FIGURES = ReadFigures(0, 0, 0, 0)


class ProjectOverview(NamedTuple):
    """A project in a list of all: its types, its subscribers, and its figures of today and of some days."""

    project: Project
    types: Sequence[NotificationType]
    subscribers: int
    sent_today: int
    figures: ReadFigures


class DailyFigures(NamedTuple):
    """The figures of the notifications of one type that were sent on one day."""

    type_id: TypeId
    day: int
    figures: ReadFigures


MessageOf: TypeAlias = Callable[[SubscriptionEvent, Webhook], OutgoingMessage]
"""Writes the message to a project's webhook."""

IdAmong: TypeAlias = Callable[[AbstractSet[TypeId]], TypeId]
"""Chooses the id of a new type, given the ids of the project's types."""


def checked_project_id(text: str) -> ProjectId:
    """Check the id of a new project. Raises InvalidInputError."""
    if not _PROJECT_ID.fullmatch(text):
        raise _invalid("project_id", "must be 1 to 64 lower-case letters a-z, digits and hyphens")
    if text in RESERVED_PROJECT_IDS:
        raise _invalid(
            "project_id", "is reserved, as the first part of a path of this server: choose another one"
        )
    return ProjectId(text)


def project_ids_of_name(name: str) -> list[ProjectId]:
    """Ids made from a project's name, the nicest first: `shop`, `shop-2`; none if nothing of it can stand."""
    made = _made_of(name)
    ids = [made, *(f"{made[:_ROOM_BEFORE_NUMBER]}-{number}" for number in range(2, _MOST_MADE_IDS))]
    return [ProjectId(each) for each in ids if each not in RESERVED_PROJECT_IDS] if made else []


def checked_type_id(text: str) -> TypeId:
    """Check the id of a new notification type. Raises InvalidInputError."""
    if not _TYPE_ID.fullmatch(text):
        raise _invalid("type_id", "must be 1 to 64 letters (A-Z, a-z), digits, dots, underscores, hyphens")
    return TypeId(text)


def type_id_of_name(name: str, taken: AbstractSet[TypeId]) -> TypeId:
    """An unused id that is made from a type's name, such as `price-alerts`, or else `price-alerts-2`."""
    made = _made_of(name) or "type"
    others = (f"{made[:_ROOM_BEFORE_NUMBER]}-{number}" for number in count(2))
    return next(TypeId(each) for each in chain([made], others) if each not in taken)


def _made_of(name: str) -> str:
    """The name in lower-case letters, digits and hyphens; empty if none of it is left."""
    plain = unicodedata.normalize("NFKD", name.lower()).encode("ascii", "ignore").decode()
    return _NOT_IN_MADE_IDS.sub("-", plain)[:_ID_MAX_CHARACTERS].strip("-")


def checked_name(text: str) -> str:
    """Check a displayed name: 1 to 64 characters without control characters. Raises InvalidInputError."""
    if not 1 <= len(text) <= NAME_MAX_CHARACTERS:
        raise _invalid("name", f"must have 1 to {NAME_MAX_CHARACTERS} characters")
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text):
        raise _invalid("name", "must not contain control characters")
    return text


def _invalid(field: str, detail: str) -> InvalidInputError:
    return InvalidInputError(f"The {field} {detail}.", [Fault(f"#/{field}", detail)])


def listed(types: Sequence[TypeId]) -> str:
    """A list of types for a sentence, with at most 20 of them named."""
    others = len(types) - _TYPES_NAMED
    return (", ".join(types[:_TYPES_NAMED]) or "none") + (f" and {others} more" if others > 0 else "")


def wrong_type(known: Sequence[TypeId]) -> str:
    """The fault of a type that the project does not have."""
    return f"names no notification type of the project, which has {listed(known)}"


class ProjectNotFoundError(NotFoundError, code="project-not-found", title="Project not found"):
    """There is no project of this id."""

    detail = "There is no project of this id."


class ProjectExistsError(ConflictError, code="project-exists", title="The project exists already"):
    """The project id is taken."""

    detail = "There is a project of this id already. Choose another id, or leave it out."


class SecretNotFoundError(NotFoundError, code="secret-not-found", title="Secret not found"):
    """The project has no secret of this number."""

    detail = "The project has no secret of this number. `project show` lists its secrets."


class TooManySecretsError(ConflictError, code="too-many-secrets", title="Too many secrets"):
    """The project has reached the limit of live secrets."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The project has {limit} live secrets. Revoke the old one before you make another.")


class TypeNotFoundError(NotFoundError, code="type-not-found", title="Notification type not found"):
    """The project has no notification type of this id."""

    detail = "The project has no notification type of this id."


class TypeExistsError(ConflictError, code="type-exists", title="The notification type exists already"):
    """The project has a notification type of this id."""

    detail = "The project has a notification type of this id already. Rename that, or choose another id."


class TooManyTypesError(ConflictError, code="too-many-types", title="Too many notification types"):
    """The project has reached the limit of notification types."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The project has {limit} notification types, which is the limit.")


class SubscriptionNotFoundError(NotFoundError, code="subscription-not-found", title="Subscription not found"):
    """The account is not subscribed to the project."""

    detail = "The account is not subscribed to this project."


class UnknownTypesError(InvalidInputError):
    """A subscription names types that the project does not have."""

    def __init__(self, places: Sequence[int], known: Sequence[TypeId]) -> None:
        wrong = wrong_type(known)
        faults = [Fault(f"#/notification_types/{place}", wrong) for place in places]
        super().__init__("The project does not have every notification type that is named.", faults)


@dataclass(frozen=True, slots=True)
class ProjectChanged(DomainEvent):
    """A project, its types, secrets or subscriptions have changed, or it was created or deleted."""

    project_id: str
