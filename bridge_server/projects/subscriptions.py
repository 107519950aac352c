"""Subscriptions of accounts to projects, changed by the account or by the operator."""

from collections import Counter
from collections.abc import Mapping, Sequence

import orjson

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.secrets import IdMaker
from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.outbox.store import enqueue
from bridge_server.projects import models
from bridge_server.projects.caip10 import account_key
from bridge_server.projects.models import Project, ProjectId, Subscription, SubscriptionChange
from bridge_server.projects.store import INSERT_MEMBER, find_project, find_types, of_project
from bridge_server.storage import database as sql

TYPE_SET = "SELECT id FROM type_sets WHERE project = ? AND types = ? AND follows_all = ? LIMIT 1"
INSERT_TYPE_SET = "INSERT INTO type_sets (project, types, follows_all) VALUES (?, ?, ?) RETURNING id"
ADD_SUBSCRIBERS = "UPDATE type_sets SET subscribers = subscribers + ? WHERE id = ?"
DELETE_UNUSED_TYPE_SET = "DELETE FROM type_sets WHERE id = ? AND subscribers = 0"

INSERT_ACCOUNT = "INSERT INTO accounts (account_key) VALUES (?) ON CONFLICT (account_key) DO NOTHING"
ACCOUNT = "SELECT id FROM accounts WHERE account_key = ?"

SUBSCRIPTION = """
SELECT subscriptions.account_id, type_sets.types, subscriptions.subscribed_at_ms, type_sets.follows_all,
    type_sets.id
FROM subscriptions JOIN type_sets ON type_sets.id = subscriptions.type_set
WHERE subscriptions.project = ? AND subscriptions.account_key = ?
"""
PROJECTS_OF_ACCOUNT = """
SELECT projects.project_id
FROM accounts
CROSS JOIN subscriptions ON subscriptions.account = accounts.id
CROSS JOIN projects ON projects.id = subscriptions.project AND projects.project_id IS NOT NULL
WHERE accounts.account_key = ? ORDER BY projects.id LIMIT ?
"""
INSERT_SUBSCRIPTION = """
INSERT INTO subscriptions (project, account_key, account, account_id, type_set, subscribed_at_ms)
VALUES (?, ?, ?, ?, ?, ?)
"""
COUNT_EVENT = "UPDATE projects SET events = events + 1 WHERE id = ? RETURNING events"
UPDATE_SUBSCRIPTION = "UPDATE subscriptions SET type_set = ? WHERE project = ? AND account_key = ?"
DELETE_SUBSCRIPTION = "DELETE FROM subscriptions WHERE project = ? AND account_key = ?"

PAGE = """
SELECT subscriptions.account_id, type_sets.types, subscriptions.subscribed_at_ms, type_sets.follows_all
FROM subscriptions JOIN type_sets ON type_sets.id = subscriptions.type_set
WHERE subscriptions.project = ? AND subscriptions.account_id > ?
    AND subscriptions.account_id < ?
ORDER BY subscriptions.account_id LIMIT ?
"""

PROJECT_EVENT = Purpose("project-event")
"""The purpose of a message to a project's webhook: its subject is the project."""

_LAST_CHARACTER = "\U0010ffff"


class SubscriptionStore:
    """Durable subscriptions. An unknown project raises ProjectNotFoundError."""

    def __init__(self, database: sql.Database) -> None:
        self.database = database

    @sql.adding_transaction(turns=of_project)
    def subscribe(
        self,
        project_id: ProjectId,
        wanted: Sequence[models.NewSubscription],
        now_ms: int,
        message_of: models.MessageOf,
    ) -> sql.Transaction[list[tuple[Subscription, SubscriptionChange | None]]]:
        """Store all or none, and queue a message for each change, which is None for what was stored
        already. Raises UnknownTypesError.
        """
        project = yield from find_project(project_id)
        types = {known.type_id: number for number, known in (yield from find_types(project))}
        sets: dict[tuple[tuple[models.TypeId, ...], bool], int] = {}
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
        yield models.ProjectChanged(project_id)
        return outcomes

    @sql.transaction(turns=of_project)
    def unsubscribe(
        self, project_id: ProjectId, account_keys: Sequence[str], now_ms: int, message_of: models.MessageOf
    ) -> sql.Transaction[int]:
        """Remove subscriptions and queue a message to the webhook for each; returns how many."""
        project = yield from find_project(project_id)
        moved = Counter[int]()
        for key in account_keys:
            for known, type_set in (yield from _subscription(project, key)):
                yield sql.Statement(DELETE_SUBSCRIPTION, (project.number, key))
                moved[type_set] -= 1
                left = known._replace(types=(), follows_all=False)
                yield from _queue_event(project, left, SubscriptionChange.UNSUBSCRIBED, now_ms, message_of)
        yield from _count(moved)
        yield models.ProjectChanged(project_id)
        return -moved.total()

    @sql.reading
    def page(
        self, project_id: ProjectId, after: str, limit: int, beginning: str = ""
    ) -> sql.Transaction[list[Subscription]]:
        """Subscriptions after an account id whose account ids begin so, ordered by account id."""
        project = yield from find_project(project_id)
        # No account id has U+0000, which databases order differently.
        start = after.partition("\0")[0]
        bounds = max(start, beginning), beginning + _LAST_CHARACTER
        rows = yield sql.Statement(PAGE, (project.number, *bounds, limit))
        return [_read_subscription(row) for row in rows]

    @sql.reading
    def find(self, project_id: ProjectId, account_key: str) -> sql.Transaction[Subscription | None]:
        """The subscription of an account."""
        project = yield from find_project(project_id)
        found = yield from _subscription(project, account_key)
        return found[0][0] if found else None

    @sql.reading
    def projects_of(self, account_key: str, limit: int) -> sql.Transaction[list[Project]]:
        """Up to `limit` projects that an account is subscribed to, oldest first."""
        projects = []
        for (project_id,) in (yield sql.Statement(PROJECTS_OF_ACCOUNT, (account_key, limit))):
            projects.append((yield from find_project(project_id)))
        return projects

    @sql.reading
    def of_account(self, project: Project, account_key: str) -> sql.Transaction[Subscription | None]:
        """The subscription of an account; None if it has none."""
        found = yield from _subscription(project, account_key)
        return found[0][0] if found else None


def account_number(key: str) -> sql.Transaction[int]:
    """The number of an account, within a transaction; an unknown account is stored first."""
    rows = yield sql.Statement(ACCOUNT, (key,))
    if not rows:
        yield sql.Statement(INSERT_ACCOUNT, (key,))
        rows = yield sql.Statement(ACCOUNT, (key,))
    return sql.scalar(int, rows)


def _subscribe(
    project: Project,
    new: models.NewSubscription,
    chosen: tuple[models.TypeId, ...],
    type_set: int,
    moved: Counter[int],
    now_ms: int,
) -> sql.Transaction[tuple[Subscription, SubscriptionChange | None]]:
    """Store a subscription, and count in `moved` the subscribers that each choice of types gains or loses."""
    moved[type_set] += 1
    key, spelled = new.account.key, new.account.spelled
    stored = yield from _subscription(project, key)
    if not stored:
        account = yield from account_number(key)
        yield sql.Statement(INSERT_SUBSCRIPTION, (project.number, key, account, spelled, type_set, now_ms))
        return Subscription(spelled, chosen, now_ms, new.types is None), SubscriptionChange.SUBSCRIBED
    ((known, left),) = stored
    moved[left] -= 1
    yield sql.Statement(UPDATE_SUBSCRIPTION, (type_set, project.number, key))
    changed = None if set(known.types) == set(chosen) else SubscriptionChange.UPDATED
    return known._replace(types=chosen, follows_all=new.types is None), changed


def _queue_event(
    project: Project,
    subscription: Subscription,
    change: SubscriptionChange | None,
    now_ms: int,
    message_of: models.MessageOf,
) -> sql.Transaction[None]:
    if change is not None and project.webhook is not None:
        number = sql.scalar(int, (yield sql.Statement(COUNT_EVENT, (project.number,))))
        event = models.SubscriptionEvent(change, project.project_id, subscription, number, now_ms)
        yield from enqueue(message_of(event, project.webhook), now_ms)


def _subscription(project: Project, key: str) -> sql.Transaction[list[tuple[Subscription, int]]]:
    """An account's subscription and the number of its choice of types; empty if there is none."""
    rows = yield sql.Statement(SUBSCRIPTION, (project.number, key))
    return [(_read_subscription(row[:-1]), row[-1]) for row in rows]


def _read_subscription(row: sql.Row) -> Subscription:
    account, types, subscribed_at_ms, follows_all = row
    return Subscription(account, tuple(orjson.loads(types)), subscribed_at_ms, bool(follows_all))


def _chosen(new: models.NewSubscription, types: Mapping[models.TypeId, int]) -> tuple[models.TypeId, ...]:
    """The wanted types, each once, in the order of the project. Raises UnknownTypesError."""
    if new.types is None:
        return tuple(types)
    unknown = [place for place, type_id in enumerate(new.types) if type_id not in types]
    if unknown:
        raise models.UnknownTypesError(unknown, list(types))
    return tuple(type_id for type_id in types if type_id in new.types)


def _type_set(
    project: Project, chosen: tuple[models.TypeId, ...], follows_all: bool, types: Mapping[models.TypeId, int]
) -> sql.Transaction[int]:
    """The number of a choice of types; it is stored if it is new."""
    choice = (project.number, orjson.dumps(chosen).decode(), int(follows_all))
    rows = yield sql.Statement(TYPE_SET, choice)
    if rows:
        return sql.scalar(int, rows)
    number = sql.scalar(int, (yield sql.Statement(INSERT_TYPE_SET, choice)))
    for type_id in chosen:
        yield sql.Statement(INSERT_MEMBER, (types[type_id], number))
    return number


def _count(moved: Mapping[int, int]) -> sql.Transaction[None]:
    """Update the number of subscribers of each choice, and delete choices without subscribers."""
    for type_set, more in moved.items():
        if more:
            yield sql.Statement(ADD_SUBSCRIBERS, (more, type_set))
        if more <= 0:
            yield sql.Statement(DELETE_UNUSED_TYPE_SET, (type_set,))


class Subscriptions:
    """Reads and changes subscriptions. An unknown project raises ProjectNotFoundError."""

    def __init__(self, store: SubscriptionStore, clock: Clock, ids: IdMaker) -> None:
        self.store, self._clock, self._ids = store, clock, ids

    async def subscribe(
        self, project_id: str, wanted: models.NewSubscription
    ) -> tuple[Subscription, SubscriptionChange | None]:
        """Subscribe an account, or change its types; returns the change too. Raises UnknownTypesError."""
        (outcome,) = await self.subscribe_all(project_id, [wanted])
        return outcome

    async def subscribe_all(
        self, project_id: str, wanted: Sequence[models.NewSubscription]
    ) -> list[tuple[Subscription, SubscriptionChange | None]]:
        """Subscribe several hundred accounts in one transaction. Raises UnknownTypesError."""
        now_ms = self._clock.now_ms()
        return await self.store.subscribe(ProjectId(project_id), wanted, now_ms, self._message_of)

    async def unsubscribe(self, project_id: str, account_key: str) -> None:
        """Unsubscribe an account. Raises ProjectNotFoundError, SubscriptionNotFoundError."""
        if not await self.unsubscribe_all(project_id, [account_key]):
            raise models.SubscriptionNotFoundError

    async def unsubscribe_all(self, project_id: str, account_keys: Sequence[str]) -> int:
        """Unsubscribe accounts; returns how many were subscribed."""
        return await self.store.unsubscribe(
            ProjectId(project_id), account_keys, self._clock.now_ms(), self._message_of
        )

    async def page(self, project_id: str, after: str, limit: int) -> list[Subscription]:
        """Up to `limit` subscriptions after the account id `after`, ordered by account id."""
        return await self.store.page(ProjectId(project_id), after, limit)

    async def search(self, project_id: str, text: str, after: str, limit: int) -> list[Subscription]:
        """The subscription of the account that the text names; else those that begin so, after `after`."""
        key = _searched_account(text)
        found = None if key is None else await self.store.find(ProjectId(project_id), key)
        return [found] if found else await self.store.page(ProjectId(project_id), after, limit, text)

    def _message_of(self, event: models.SubscriptionEvent, webhook: models.Webhook) -> OutgoingMessage:
        message_id, body = self._ids.random_uuid(), write_event(event)
        return OutgoingMessage(
            message_id, webhook.url, body, PROJECT_EVENT, webhook.signing_secret, subject=event.project_id
        )


def _searched_account(text: str) -> str | None:
    """The account key of an account id or of an Ethereum address; None if the text is neither."""
    try:
        return account_key(f"eip155:1:{text}" if text.startswith("0x") else text)
    except ValueError:
        return None


def write_event(event: models.SubscriptionEvent) -> bytes:
    """The JSON of a change of a subscription, with the types after the change."""
    return orjson.dumps(
        {
            "event": event.change.value,
            "number": event.number,
            "project_id": event.project_id,
            "account": event.subscription.account,
            "notification_types": event.subscription.types,
            "at": rfc3339(event.at_ms),
        }
    )
