"""Deletion of sendings, notifications and projects with their rows in other tables, a slice at a time."""

from bridge_server.projects import deleting_sql as sql
from bridge_server.storage.database import Statement, Transaction, Value, json_array, scalar


def delete_sendings(sendings: Value, limit: int) -> Transaction[int]:
    """Delete up to `limit` deliveries of the sendings in a JSON array, then sendings without deliveries.

    Unread deliveries are counted as lapsed. A notification without an idempotency key is deleted with its
    last sending, unless an account that it has not reached is still kept. Returns the number of deleted rows.
    """
    deliveries = yield Statement(sql.DELETE_DELIVERIES, (sendings, limit))
    unread = json_array(sending for sending, read_at_ms in deliveries if read_at_ms is None)
    yield Statement(sql.COUNT_LAPSED, (unread,))
    yield Statement(sql.COUNT_LAPSED_OF_NOTIFICATIONS, (unread,))
    emptied = yield Statement(sql.DELETE_SENDINGS, (sendings,))
    notifications = json_array(notification for (notification,) in emptied)
    deleted = yield from delete_unsent_notifications(notifications)
    return len(deliveries) + len(emptied) + deleted


def delete_unsent_notifications(notifications: Value) -> Transaction[int]:
    """Delete the notifications in a JSON array that have neither an idempotency key, nor a sending, nor an
    account that they have not reached. Returns how many.
    """
    return scalar(int, (yield Statement(sql.DELETE_UNSENT_NOTIFICATIONS, (notifications,))))


def delete_notifications(notifications: Value, limit: int) -> Transaction[int]:
    """Delete up to `limit` covered accounts of the notifications in a JSON array, then notifications
    without covered accounts. Their sendings must be deleted before. Returns the number of deleted rows.
    """
    covered = scalar(int, (yield Statement(sql.DELETE_COVERED, (notifications, limit))))
    deleted = scalar(int, (yield Statement(sql.DELETE_UNCOVERED_NOTIFICATIONS, (notifications,))))
    return covered + deleted


def delete_project(project: Value, limit: int) -> Transaction[int]:
    """Delete a slice of a project, by its number, and of all its rows; returns the number of deleted rows."""
    ((sendings,),) = yield Statement(sql.SENDINGS, (project, limit))
    swept = yield from delete_sendings(sendings, limit)
    if swept:
        return swept
    missed = scalar(int, (yield Statement(sql.DELETE_MISSED, (project, limit))))
    if missed:
        return missed
    ((notifications,),) = yield Statement(sql.NOTIFICATIONS, (project, limit))
    swept = yield from delete_notifications(notifications, limit)
    if swept:
        return swept
    for statement in sql.SWEEP_DELETED:
        deleted = scalar(int, (yield Statement(statement, (project, limit))))
        if deleted:
            return deleted
    return 0
