"""The store of notifications, their deliveries and the buckets that limit them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from bridge_server.kernel.errors import NotAuthenticatedError
from bridge_server.kernel.instants import day_of
from bridge_server.kernel.token_bucket import Limit, spend
from bridge_server.kernel.values import dataclass
from bridge_server.notify import models
from bridge_server.notify.models import FailureReason, Failures
from bridge_server.outbox.store import enqueue_all
from bridge_server.projects import store as projects
from bridge_server.projects.models import Project, ProjectNotFoundError, Publisher, TypeId
from bridge_server.storage import database as sql
from bridge_server.storage.database import Statement, Transaction

# The statements of the notification store. A list of accounts is one JSON parameter or result.
#
# CROSS JOIN fixes the order of the tables: the JSON list first, then an indexed look-up for each element.
# With JOIN, SQLite may scan all subscribers of a project, because it overestimates the length of the list.

# The number of a notification's deliveries that were bulk-marked. It is counted at the notification's last
# sending; mark-all-as-read marks everything that is unread, and does not count again.
BULK_MARKED = """
CASE WHEN coalesce((SELECT max(sendings.id) FROM sendings WHERE sendings.notification = notifications.id), 0)
        <= (SELECT projects.read_through FROM projects WHERE projects.id = notifications.project)
     THEN notifications.sent - notifications.read - notifications.lapsed
     ELSE notifications.bulk_marked END
"""

TYPE = "SELECT id FROM notification_types WHERE project = ? AND type_id = ? AND removed_at_ms IS NULL"
FIRST_CALL = """
SELECT notifications.id, notifications.type, notification_types.type_id,
       notifications.title, notifications.body, notifications.url,
       notifications.rate_limited + notifications.type_not_subscribed
FROM notifications JOIN notification_types ON notification_types.id = notifications.type
WHERE notifications.project = ? AND notifications.idempotency_key = ?
"""
INSERT_NOTIFICATION = """
INSERT INTO notifications
    (project, type, idempotency_key, title, body, url, created_at_ms, sent, rate_limited, type_not_subscribed)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id
"""
# Counts a later call, before its sending is stored: mark-all-as-read has marked whatever was unread before.
COUNT_CALL = f"""
UPDATE notifications SET bulk_marked = {BULK_MARKED},
    sent = sent + ?, rate_limited = rate_limited + ?, type_not_subscribed = type_not_subscribed + ?
WHERE id = ?
"""  # noqa: S608 - only the constant above
INSERT_SENDING = """
INSERT INTO sendings (project, type, notification, sent_at_ms) VALUES (?, ?, ?, ?) RETURNING id
"""

# The debt of a bucket: microseconds until it is full, at the rate of the present limit. A debt at an earlier
# rate is converted by its number of tokens, rounded up.
_DEBT = """
CASE WHEN account_buckets.full_at_us <= {now} THEN 0
     WHEN account_buckets.interval_us = {interval} THEN account_buckets.full_at_us - {now}
     ELSE (account_buckets.full_at_us - {now} + account_buckets.interval_us - 1)
          / account_buckets.interval_us * {interval} END
"""

# Divides the requested account keys into accounts to send to, and [key, reason, debt] of the others. A bucket
# with a debt of more than ?3 has no token.
SORT = f"""
SELECT json_group_array(account) FILTER (WHERE reason = 'none'),
       json_group_array(json_array(account_key, reason, debt_us)) FILTER (WHERE reason <> 'none')
FROM (
    SELECT account_key, account, debt_us,
           CASE WHEN account IS NULL THEN 'not_subscribed'
                WHEN type IS NULL THEN 'type_not_subscribed'
                WHEN debt_us > ?3 THEN 'rate_limited'
                ELSE 'none' END AS reason
    FROM (
        SELECT asked.value AS account_key, subscriptions.account, type_set_members.type,
               {_DEBT.format(now="?1", interval="?2")} AS debt_us
        FROM json_each(?4) AS asked
        LEFT JOIN subscriptions ON subscriptions.project = ?5 AND subscriptions.account_key = asked.value
        LEFT JOIN type_set_members
            ON type_set_members.type = ?6 AND type_set_members.type_set = subscriptions.type_set
        LEFT JOIN account_buckets
            ON account_buckets.project = ?5 AND account_buckets.account = subscriptions.account
    ) AS found
) AS sorted
"""  # noqa: S608 - only the constant above
# The requested account keys that the notification has not reached.
NOT_COVERED = """
SELECT json_group_array(asked.value) FROM json_each(?) AS asked
WHERE NOT EXISTS (
    SELECT 1 FROM accounts CROSS JOIN covered_accounts
        ON covered_accounts.notification = ? AND covered_accounts.account = accounts.id
    WHERE accounts.account_key = asked.value
)
"""

INSERT_DELIVERIES = "INSERT INTO deliveries (account, sending) SELECT value, ? FROM json_each(?)"
INSERT_COVERED = "INSERT INTO covered_accounts (notification, account) SELECT ?, value FROM json_each(?)"

# Takes one token from each bucket: it becomes full one interval later.
SPEND = f"""
INSERT INTO account_buckets (project, account, full_at_us, interval_us, sweep_at_us)
SELECT ?3, value, ?1 + ?2, ?2, ?1 + ?2 FROM json_each(?4) WHERE true
ON CONFLICT (project, account) DO UPDATE
SET full_at_us = ?1 + ?2 + {_DEBT.format(now="?1", interval="?2")}, interval_us = ?2
"""  # noqa: S608 - only the constant above
# Limits the debt of buckets without a token to an empty bucket, for the case that the clock was set back.
CLAMP = f"""
UPDATE account_buckets SET interval_us = ?2,
    full_at_us = ?1 + min(?3, {_DEBT.format(now="?1", interval="?2")}),
    sweep_at_us = ?1 + min(?3, {_DEBT.format(now="?1", interval="?2")})
WHERE project = ?4 AND (full_at_us > ?1 + ?3 OR interval_us <> ?2)
    AND account IN (SELECT subscriptions.account FROM json_each(?5) AS asked CROSS JOIN subscriptions
        ON subscriptions.project = ?4 AND subscriptions.account_key = asked.value)
"""  # noqa: S608 - only the constant above
COUNT_SENT = """
INSERT INTO daily_figures (project, type, day, sent) VALUES (?, ?, ?, ?)
ON CONFLICT (project, type, day) DO UPDATE SET sent = daily_figures.sent + excluded.sent
"""
# Starts from the devices, because few accounts have any.
DEVICES = """
SELECT devices.device_id, devices.address, devices.lane, subscriptions.account_id
FROM json_each(?) AS sent
CROSS JOIN devices ON devices.account = sent.value
CROSS JOIN accounts ON accounts.id = devices.account
CROSS JOIN subscriptions ON subscriptions.project = ? AND subscriptions.account_key = accounts.account_key
"""

COUNT_UNREAD = """
SELECT coalesce(sum(sent - read - bulk_marked - lapsed), 0) FROM daily_figures WHERE project = ?
"""
MARK_FIGURES = "UPDATE daily_figures SET bulk_marked = sent - read - lapsed WHERE project = ?"
MARK_THROUGH = """
UPDATE projects SET marked_at_ms = ?, read_through =
    coalesce((SELECT max(id) FROM sendings WHERE sendings.project = projects.id), read_through)
WHERE id = ?
"""

# The subscribers among the requested accounts as JSON of the answer, without its first two characters, its
# last two, and _TYPES, which each array of types begins with; and the account ids that differ from the stored
# ones. LEFT JOIN fixes the order of the tables, as CROSS JOIN does.
LOOKUP = """
SELECT CAST(group_concat(asked.key || type_sets.types, '},"') AS BLOB),
       json_group_array(asked.key) FILTER (WHERE subscriptions.account_id IS DISTINCT FROM asked.key),
       EXISTS (SELECT 1 FROM project_secrets WHERE project = ? AND digest = ?)
FROM json_each(?) AS asked
LEFT JOIN subscriptions ON subscriptions.project = ? AND subscriptions.account_key = asked.value
LEFT JOIN type_sets ON type_sets.id = subscriptions.type_set
"""
_TYPES = b'":{"notification_types":['  # put in for each bracket, which no id of an account or type has
# A page as JSON of the answer, and its last account: NULL on the last page. Finding the end of a page before
# reading it is twice as fast as a subquery with LIMIT. Account ids contain no character that JSON escapes,
# and none from ~ on.
LISTING_PAGE = """
SELECT CAST(group_concat(subscriptions.account_id, '","') AS BLOB), page.last,
    EXISTS (SELECT 1 FROM projects WHERE projects.id = ? AND projects.project_id IS NOT NULL)
FROM (SELECT (SELECT account_id FROM subscriptions WHERE project = ? AND account_id > ?
              ORDER BY account_id LIMIT 1 OFFSET ?) AS last) AS page
CROSS JOIN subscriptions ON subscriptions.project = ? AND subscriptions.account_id > ?
    AND subscriptions.account_id <= coalesce(page.last, '~')
"""

# A slice of the buckets that are due: full ones are deleted, the others are due again when they are full.
SWEEP_FULL_BUCKETS = """
DELETE FROM account_buckets WHERE full_at_us <= ? AND (project, account) IN
    (SELECT project, account FROM account_buckets WHERE sweep_at_us <= ? ORDER BY sweep_at_us LIMIT ?)
"""
PUT_OFF_BUCKETS = """
UPDATE account_buckets SET sweep_at_us = full_at_us WHERE (project, account) IN
    (SELECT project, account FROM account_buckets WHERE sweep_at_us <= ? ORDER BY sweep_at_us LIMIT ?)
"""
# Deletes first the deliveries that users have read, then whole sendings: bulk-marked and old ones. Ids follow
# the order of time unless the clock was set back: ids narrow the search, times decide.
SWEEP_READ = """
DELETE FROM deliveries WHERE (account, sending) IN
    (SELECT account, sending FROM deliveries
     WHERE read_at_ms > 0 AND read_at_ms <= ? ORDER BY read_at_ms LIMIT ?)
"""
# The times of deliveries that the operator has marked are negative.
SWEEP_MARKED_BY_OPERATOR = """
DELETE FROM deliveries WHERE (account, sending) IN
    (SELECT account, sending FROM deliveries
     WHERE read_at_ms < 0 AND read_at_ms >= ? ORDER BY read_at_ms DESC LIMIT ?)
"""
OLD_SENDINGS = """
SELECT json_group_array(id)
FROM (SELECT id FROM sendings WHERE sent_at_ms <= ? ORDER BY sent_at_ms LIMIT ?) AS old
"""
BULK_MARKED_SENDINGS = """
SELECT json_group_array(id) FROM (
    SELECT sendings.id FROM projects
    CROSS JOIN sendings ON sendings.project = projects.id AND sendings.id <= projects.read_through
    WHERE projects.marked_at_ms <= ? LIMIT ?
) AS marked
"""

# Accounts that a notification has not reached are kept for the operator for a while, with the reason. A
# project has a bounded number of them: the oldest make room. The parameter is a JSON array of [account key,
# reason, time from which the limit lets it pass].
INSERT_MISSED = """
INSERT INTO missed_accounts (project, notification, account, reason, retry_at_ms, at_ms)
SELECT ?, ?, accounts.id, json_extract(failed.value, '$[1]'), json_extract(failed.value, '$[2]'), ?
FROM json_each(?) AS failed CROSS JOIN accounts ON accounts.account_key = json_extract(failed.value, '$[0]')
"""
DELETE_MISSED_ASKED = """
DELETE FROM missed_accounts WHERE project = ? AND notification = ? AND account IN
    (SELECT accounts.id FROM json_each(?) AS asked CROSS JOIN accounts ON accounts.account_key = asked.value)
RETURNING reason
"""
COUNT_MISSED = (
    "UPDATE projects SET missed_accounts = missed_accounts + ? WHERE id = ? RETURNING missed_accounts"
)
DELETE_OLDEST_MISSED = """
DELETE FROM missed_accounts WHERE (project, notification, account) IN
    (SELECT project, notification, account FROM missed_accounts
     WHERE project = ? ORDER BY notification, account LIMIT ?)
RETURNING project, notification
"""
SWEEP_MISSED = """
DELETE FROM missed_accounts WHERE (project, notification, account) IN
    (SELECT project, notification, account FROM missed_accounts WHERE at_ms <= ? ORDER BY at_ms LIMIT ?)
RETURNING project, notification
"""

_SWEEP_SLICE = 500
_EVICTED_AT_ONCE = 1_000  # more than a call can add, so that a project comes down to a lowered bound

_MISSED = (FailureReason.RATE_LIMITED, FailureReason.TYPE_NOT_SUBSCRIBED)


@dataclass(slots=True)
class MissedLimits:
    """How many accounts without their notification are kept for one project. The setting may change live."""

    most: int


@dataclass(frozen=True, slots=True)
class SendingLimits:
    """The rate limit of each account unless the project has its own, and the limit of recorded failures."""

    account: Limit
    missed: MissedLimits


@dataclass(frozen=True, slots=True)
class SentContent:
    """A notification with the numbers of its type and, once it is stored, its own."""

    notification: models.Notification
    type: int
    notification_id: str | None
    number: int = 0
    has_missed: bool = False


@dataclass(frozen=True, slots=True)
class SortedAccounts:
    """The content of a call to notify, the accounts to send it to, and the failures of the others."""

    stored: SentContent
    left: str  # a JSON array: the keys of all accounts that the content has not reached yet
    accounts: str  # a JSON array: the numbers of the accounts to send to
    failures: Failures


def _turns_of_sender(sender: models.Sender, *_: object, **__: object) -> sql.Turns:
    project_id = sender.project.project_id if isinstance(sender, Publisher) else sender
    return sql.Turns(
        (projects.turn_of_project(project_id), projects.TURN_OF_SENDINGS), shared=(projects.TURN_OF_FIGURES,)
    )


def _turns_of_publisher(publisher: Publisher, *_: object, **__: object) -> sql.Turns:
    return sql.Turns((projects.turn_of_project(publisher.project.project_id), projects.TURN_OF_FIGURES))


class NotifyStore:
    """Durable notifications, with the buckets that limit them."""

    def __init__(self, database: sql.Database) -> None:
        self.database = database

    @sql.adding_transaction(turns=_turns_of_sender)
    def send(
        self,
        sender: models.Sender,
        request: models.NotifyRequest,
        limits: SendingLimits,
        now_us: int,
        message_to: models.MessageTo,
    ) -> Transaction[Failures]:
        """Deliver to every account that may be sent to, charge each, queue its devices: all or nothing. A
        known `notification_id` stands for the content of its first call; accounts that it has reached count
        as sent to and are charged nothing. Raises UnknownTypeError, and NotAuthenticatedError when the
        project or the secret is deleted.
        """
        project = yield from find_sending(sender)
        call = yield from _sorted_accounts(project, request, limits, now_us)
        charged = project.account_limit or limits.account
        limited = [key for key, each in call.failures.items() if each.reason is FailureReason.RATE_LIMITED]
        if limited:
            clock = (now_us, charged.interval_us, charged.window_us)
            yield Statement(CLAMP, (*clock, project.number, sql.json_array(limited)))
        numbers: Sequence[int] = orjson.loads(call.accounts)
        stored = yield from _count_call(project, call, len(numbers), now_us // 1000)
        if numbers:
            number = yield from _deliver(project, stored, call.accounts, len(numbers), now_us // 1000)
            yield Statement(SPEND, (now_us, charged.interval_us, project.number, call.accounts))
            sent = models.SentNotification(
                project.project_id, project.name, stored.notification, number, now_us // 1000
            )
            rows = yield Statement(DEVICES, (call.accounts, project.number))
            messages = [message_to(sent, models.DeviceOfRecipient(*row)) for row in rows]
            yield from enqueue_all(messages, sent.sent_at_ms)
            yield models.Delivered(tuple(numbers))
        yield from _record_missed(project, stored.number, _missed(call.failures), limits.missed.most, now_us)
        return call.failures

    @sql.reading
    def rehearse(
        self, sender: models.Sender, request: models.NotifyRequest, limits: SendingLimits, now_us: int
    ) -> Transaction[Failures]:
        """The failures that `send` would return now. Nothing is changed. Raises what `send` raises."""
        project = yield from find_sending(sender)
        return (yield from _sorted_accounts(project, request, limits, now_us)).failures

    @sql.transaction(turns=_turns_of_publisher)
    def mark_all_as_read(self, publisher: Publisher, now_ms: int) -> Transaction[int]:
        """Mark everything sent so far; returns how many were unread. Raises NotAuthenticatedError."""
        project = yield from projects.find_publishing(publisher)
        unread = sql.scalar(int, (yield Statement(COUNT_UNREAD, (project.number,))))
        if unread:
            yield Statement(MARK_FIGURES, (project.number,))
        yield Statement(MARK_THROUGH, (now_ms, project.number))
        yield models.AllMarkedRead()
        return unread

    async def lookup(self, publisher: Publisher, keys: Mapping[str, str]) -> models.Lookup:
        """The subscribers among the accounts, whose keys are given. Raises NotAuthenticatedError."""
        asked, number = orjson.dumps(keys).decode(), publisher.project.number
        ((members, others, is_live),) = await self.database.read(
            LOOKUP, (number, publisher.digest, asked, number)
        )
        if not is_live:
            raise NotAuthenticatedError(projects.NOT_VALID_ANY_MORE)
        found = b'{"%b}}' % members.replace(b"[", _TYPES) if members else b"{}"
        return models.Lookup(found, orjson.loads(others))

    async def listing_page(self, project: Project, after: str, limit: int) -> tuple[bytes, str | None]:
        """Accounts after `after`, as JSON strings without the outer quotes, and the last of them if others
        follow. Raises ProjectNotFoundError.
        """
        begin = (project.number, after)
        ((accounts, last, is_there),) = await self.database.read(
            LISTING_PAGE, (project.number, *begin, limit - 1, *begin)
        )
        if not is_there:
            raise ProjectNotFoundError
        return accounts or b"", last

    @sql.transaction(turns=sql.sweeping("notifications", projects.TURN_OF_FIGURES))
    def sweep(self, now_ms: int, before: models.Outdated) -> Transaction[int]:
        """Delete a slice of the outdated rows, and of the full buckets. Returns how many rows."""
        now_us = now_ms * 1000
        buckets = sql.scalar(int, (yield Statement(SWEEP_FULL_BUCKETS, (now_us, now_us, _SWEEP_SLICE))))
        buckets += sql.scalar(int, (yield Statement(PUT_OFF_BUCKETS, (now_us, _SWEEP_SLICE))))
        if buckets:
            return buckets
        read = sql.scalar(int, (yield Statement(SWEEP_READ, (before.read_ms, _SWEEP_SLICE))))
        marked_before = (-before.read_ms, _SWEEP_SLICE)
        read += sql.scalar(int, (yield Statement(SWEEP_MARKED_BY_OPERATOR, marked_before)))
        if read:
            return read
        missed = yield from _delete_missed(SWEEP_MISSED, before.missed_ms, _SWEEP_SLICE)
        if missed:
            return missed
        ((old,),) = yield Statement(OLD_SENDINGS, (before.sent_ms, _SWEEP_SLICE))
        deleted = yield from projects.delete_sendings(old, _SWEEP_SLICE)
        if deleted:
            return deleted
        ((marked,),) = yield Statement(BULK_MARKED_SENDINGS, (before.read_ms, _SWEEP_SLICE))
        return (yield from projects.delete_sendings(marked, _SWEEP_SLICE))


def find_sending(sender: models.Sender) -> Transaction[Project]:
    """The project that is sent for. Raises what `find_publishing` and `find_project` raise."""
    if isinstance(sender, Publisher):
        return (yield from projects.find_publishing(sender))
    return (yield from projects.find_project(sender))


def _sorted_accounts(
    project: Project, request: models.NotifyRequest, limits: SendingLimits, now_us: int
) -> Transaction[SortedAccounts]:
    """Read what the call would do. Nothing is changed. Raises UnknownTypeError."""
    asked = sql.json_array(list(dict.fromkeys(request.keys.values())))
    stored, left = yield from _content_to_send(project, request, asked)
    limit = project.account_limit or limits.account
    clock = (now_us, limit.interval_us, limit.window_us - limit.interval_us)
    ((accounts, others),) = yield Statement(SORT, (*clock, left, project.number, stored.type))
    failures = {
        key: _failure(FailureReason(reason), debt_us, limit, now_us)
        for key, reason, debt_us in orjson.loads(others)
    }
    return SortedAccounts(stored, left, accounts, failures)


def _content_to_send(
    project: Project, request: models.NotifyRequest, asked: str
) -> Transaction[tuple[SentContent, str]]:
    """The content to send, and the account keys that it has not reached yet."""
    if request.notification_id is not None:
        rows = yield Statement(FIRST_CALL, (project.number, request.notification_id))
        if rows:
            number, type_number, type_id, title, body, url, missed = rows[0]
            content = models.Notification(TypeId(type_id), title, body, url)
            left = sql.scalar(str, (yield Statement(NOT_COVERED, (asked, number))))
            return SentContent(content, type_number, request.notification_id, number, bool(missed)), left
    rows = yield Statement(TYPE, (project.number, request.notification.type_id))
    if not rows:
        known = [kind.type_id for _, kind in (yield from projects.find_types(project))]
        raise models.UnknownTypeError(known, "#/notification/type")
    return SentContent(request.notification, rows[0][0], request.notification_id), asked


def _failure(reason: FailureReason, debt_us: int, limit: Limit, now_us: int) -> models.AccountFailure:
    if reason is not FailureReason.RATE_LIMITED:
        return models.AccountFailure(reason)
    return models.AccountFailure(reason, spend(limit, now_us + debt_us, now_us).retry_after_us)


def _count_call(project: Project, call: SortedAccounts, sent: int, now_ms: int) -> Transaction[SentContent]:
    """Count the outcomes of the call. A new notification is stored, unless there is nothing to remember."""
    stored = call.stored
    failed = Counter(failure.reason for failure in _missed(call.failures).values())
    if not stored.number:
        if not sent and not failed and stored.notification_id is None:
            return stored
        counts = sent, failed[FailureReason.RATE_LIMITED], failed[FailureReason.TYPE_NOT_SUBSCRIBED]
        content = (stored.notification.title, stored.notification.body, stored.notification.url)
        row = (project.number, stored.type, stored.notification_id, *content, now_ms, *counts)
        return replace(stored, number=sql.scalar(int, (yield Statement(INSERT_NOTIFICATION, row))))
    if stored.has_missed:
        failed.subtract((yield from _forget_missed(project, stored.number, call.left)))
    counts = sent, failed[FailureReason.RATE_LIMITED], failed[FailureReason.TYPE_NOT_SUBSCRIBED]
    if any(counts):
        yield Statement(COUNT_CALL, (*counts, stored.number))
    return stored


def _forget_missed(project: Project, notification: int, asked: str) -> Transaction[Counter[FailureReason]]:
    """Delete the earlier failures of accounts that are asked for again; returns their number by reason."""
    rows = yield Statement(DELETE_MISSED_ASKED, (project.number, notification, asked))
    if rows:
        yield Statement(COUNT_MISSED, (-len(rows), project.number))
    return Counter(FailureReason(reason) for (reason,) in rows)


def _deliver(
    project: Project, stored: SentContent, accounts: str, sent: int, now_ms: int
) -> Transaction[int]:
    """Put the notification into the inboxes; returns the number of the sending."""
    row = (project.number, stored.type, stored.number, now_ms)
    number = sql.scalar(int, (yield Statement(INSERT_SENDING, row)))
    yield Statement(INSERT_DELIVERIES, (number, accounts))
    if stored.notification_id is not None:
        yield Statement(INSERT_COVERED, (stored.number, accounts))
    yield Statement(COUNT_SENT, (project.number, stored.type, day_of(now_ms), sent))
    return number


def _missed(failures: Failures) -> dict[str, models.AccountFailure]:
    """The failures of subscribers, by account key. The others are of accounts that nobody needs to know."""
    return {key: failure for key, failure in failures.items() if failure.reason in _MISSED}


def _record_missed(
    project: Project, notification: int, failures: Mapping[str, models.AccountFailure], most: int, now_us: int
) -> Transaction[None]:
    """Store the failures, and delete the project's oldest ones if they are more than `most`."""
    if not failures:
        return
    rows = [[key, failure.reason.value, _retry_at_ms(failure, now_us)] for key, failure in failures.items()]
    row = (project.number, notification, now_us // 1000)
    added = sql.scalar(int, (yield Statement(INSERT_MISSED, (*row, orjson.dumps(rows).decode()))))
    kept = sql.scalar(int, (yield Statement(COUNT_MISSED, (added, project.number))))
    if kept > most:
        yield from _delete_missed(DELETE_OLDEST_MISSED, project.number, min(kept - most, _EVICTED_AT_ONCE))


def _retry_at_ms(failure: models.AccountFailure, now_us: int) -> int | None:
    if failure.reason is not FailureReason.RATE_LIMITED:
        return None
    return -(-(now_us + failure.retry_after_us) // 1000)


def _delete_missed(statement: str, which: int, limit: int) -> Transaction[int]:
    """Delete up to `limit` failures: a project's oldest, or all before a time. Returns how many rows."""
    rows = yield Statement(statement, (which, limit))
    for project, number in Counter(project for project, _ in rows).items():
        yield Statement(COUNT_MISSED, (-number, project))
    notifications = sql.json_array({notification for _, notification in rows})
    return len(rows) + (yield from projects.delete_unsent_notifications(notifications))
