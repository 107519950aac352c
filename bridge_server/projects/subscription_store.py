"""The store of subscriptions."""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

import orjson

from bridge_server.outbox.store import enqueue
from bridge_server.projects import subscription_sql as sql
from bridge_server.projects.errors import UnknownTypesError
from bridge_server.projects.events import ProjectChanged
from bridge_server.projects.models import (
    MessageOf,
    NewSubscription,
    Project,
    ProjectId,
    Subscription,
    SubscriptionChange,
    SubscriptionEvent,
    TypeId,
)
from bridge_server.projects.sql import INSERT_MEMBER
from bridge_server.projects.store import find_project, find_types
from bridge_server.projects.turns import of_project
from bridge_server.storage.database import (
    Database,
    Row,
    Statement,
    Step,
    Transaction,
    adding_transaction,
    reading,
    scalar,
    transaction,
)

_LAST_CHARACTER = "\U0010ffff"


class SubscriptionStore:
    """Durable subscriptions. An unknown project raises ProjectNotFoundError."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @adding_transaction(turns=of_project)
    def subscribe(
        self,
        project_id: ProjectId,
        wanted: Sequence[NewSubscription],
        now_ms: int,
        message_of: MessageOf,
    ) -> Transaction[list[tuple[Subscription, SubscriptionChange | None]]]:
        """Store the subscriptions, all or none, and queue a message to the webhook for each change.

        Returns each subscription with its change; None means that it was stored already. Raises
        UnknownTypesError.
        """
        project = yield from find_project(project_id)
        types = {known.type_id: number for number, known in (yield from find_types(project))}
        sets: dict[tuple[tuple[TypeId, ...], bool], int] = {}
        moved = Counter[int]()
        outcomes = []
        for new in wanted:
            chosen = _chosen(new, types)
            choice = chosen, new.types is None
            if choice not in sets:
                sets[choice] = yield from _type_set(project, *choice, types)
            outcome = yield from _subscribe(project, new, chosen, sets[choice], moved, now_ms)
            yield from _queue_event(project, *outcome, now_ms, message_of)
            outcomes.append(outcome)
        yield from _count(moved)
        yield ProjectChanged(project_id)
        return outcomes

    @transaction(turns=of_project)
    def unsubscribe(
        self, project_id: ProjectId, account_keys: Sequence[str], now_ms: int, message_of: MessageOf
    ) -> Transaction[int]:
        """Remove subscriptions and queue a message to the webhook for each; returns how many."""
        project = yield from find_project(project_id)
        moved = Counter[int]()
        for key in account_keys:
            for known, type_set in (yield from _subscription(project, key)):
                yield Statement(sql.DELETE_SUBSCRIPTION, (project.number, key))
                moved[type_set] -= 1
                left = replace(known, types=(), follows_all=False)
                yield from _queue_event(project, left, SubscriptionChange.UNSUBSCRIBED, now_ms, message_of)
        yield from _count(moved)
        yield ProjectChanged(project_id)
        return -moved.total()

    @reading
    def page(
        self, project_id: ProjectId, after: str, limit: int, beginning: str = ""
    ) -> Transaction[list[Subscription]]:
        """Up to `limit` subscriptions after the account id `after`, ordered by account id.

        Each account id begins with `beginning`.
        """
        project = yield from find_project(project_id)
        start = after.partition("\0")[
            0
        ]  # no account id has this character, which databases order differently
        bounds = max(start, beginning), beginning + _LAST_CHARACTER
        rows = yield Statement(sql.PAGE, (project.number, *bounds, limit))
        return [_read_subscription(row) for row in rows]

    @reading
    def find(self, project_id: ProjectId, account_key: str) -> Transaction[Subscription | None]:
        """The subscription of an account."""
        project = yield from find_project(project_id)
        found = yield from _subscription(project, account_key)
        return found[0][0] if found else None

    @reading
    def projects_of(self, account_key: str, limit: int) -> Transaction[list[Project]]:
        """Up to `limit` projects that an account is subscribed to, oldest first."""
        projects = []
        for (project_id,) in (yield Statement(sql.PROJECTS_OF_ACCOUNT, (account_key, limit))):
            projects.append((yield from find_project(project_id)))
        return projects

    @reading
    def of_account(self, project: Project, account_key: str) -> Transaction[Subscription | None]:
        """The subscription of an account; None if it has none."""
        found = yield from _subscription(project, account_key)
        return found[0][0] if found else None


def account_number(key: str) -> Generator[Step, list[Row], int]:
    """The number of an account, within a transaction; an unknown account is stored first."""
    rows = yield Statement(sql.ACCOUNT, (key,))
    if not rows:
        yield Statement(sql.INSERT_ACCOUNT, (key,))
        rows = yield Statement(sql.ACCOUNT, (key,))
    return scalar(int, rows)


def _subscribe(
    project: Project,
    new: NewSubscription,
    chosen: tuple[TypeId, ...],
    type_set: int,
    moved: Counter[int],
    now_ms: int,
) -> Generator[Step, list[Row], tuple[Subscription, SubscriptionChange | None]]:
    """Store a subscription, and count in `moved` the subscribers that each choice of types gains or loses."""
    moved[type_set] += 1
    key, spelled = new.account.key, new.account.spelled
    stored = yield from _subscription(project, key)
    if not stored:
        account = yield from account_number(key)
        yield Statement(sql.INSERT_SUBSCRIPTION, (project.number, key, account, spelled, type_set, now_ms))
        return Subscription(spelled, chosen, now_ms, new.types is None), SubscriptionChange.SUBSCRIBED
    ((known, left),) = stored
    moved[left] -= 1
    yield Statement(sql.UPDATE_SUBSCRIPTION, (type_set, project.number, key))
    changed = None if set(known.types) == set(chosen) else SubscriptionChange.UPDATED
    return replace(known, types=chosen, follows_all=new.types is None), changed


def _queue_event(
    project: Project,
    subscription: Subscription,
    change: SubscriptionChange | None,
    now_ms: int,
    message_of: MessageOf,
) -> Transaction[None]:
    if change is not None and project.webhook is not None:
        number = scalar(int, (yield Statement(sql.COUNT_EVENT, (project.number,))))
        event = SubscriptionEvent(change, project.project_id, subscription, number, now_ms)
        yield from enqueue(message_of(event, project.webhook), now_ms)


def _chosen(new: NewSubscription, types: Mapping[TypeId, int]) -> tuple[TypeId, ...]:
    """The wanted types, each once, in the order of the project. Raises UnknownTypesError."""
    if new.types is None:
        return tuple(types)
    unknown = [place for place, type_id in enumerate(new.types) if type_id not in types]
    if unknown:
        raise UnknownTypesError(unknown, list(types))
    return tuple(type_id for type_id in types if type_id in new.types)


def _type_set(
    project: Project, chosen: tuple[TypeId, ...], follows_all: bool, types: Mapping[TypeId, int]
) -> Generator[Step, list[Row], int]:
    """The number of a choice of types; it is stored if it is new."""
    choice = (project.number, orjson.dumps(chosen).decode(), int(follows_all))
    rows = yield Statement(sql.TYPE_SET, choice)
    if rows:
        return scalar(int, rows)
    number = scalar(int, (yield Statement(sql.INSERT_TYPE_SET, choice)))
    for type_id in chosen:
        yield Statement(INSERT_MEMBER, (types[type_id], number))
    return number


def _count(moved: Mapping[int, int]) -> Transaction[None]:
    """Update the number of subscribers of each choice, and delete choices without subscribers."""
    for type_set, more in moved.items():
        if more:
            yield Statement(sql.COUNT_SUBSCRIBERS, (more, type_set))
        if more <= 0:
            yield Statement(sql.DELETE_UNUSED_TYPE_SET, (type_set,))


def _subscription(project: Project, key: str) -> Generator[Step, list[Row], list[tuple[Subscription, int]]]:
    """An account's subscription and the number of its choice of types; empty if there is none."""
    rows = yield Statement(sql.SUBSCRIPTION, (project.number, key))
    return [(_read_subscription(row[:-1]), row[-1]) for row in rows]


def _read_subscription(row: Row) -> Subscription:
    account, types, subscribed_at_ms, follows_all = row
    return Subscription(account, tuple(orjson.loads(types)), subscribed_at_ms, bool(follows_all))
