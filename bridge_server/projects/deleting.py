"""Sendings, notifications and projects go a slice at a time, with whatever belongs to them."""

from bridge_server.projects import deleting_sql as sql
from bridge_server.storage.database import Statement, Transaction, Value, json_array, scalar


def delete_sendings(sendings: Value, limit: int) -> Transaction[int]:
    """Delete up to `limit` deliveries of the sendings in this JSON array, and those that have none left.

    Unread deliveries are counted as lapsed; a notification without a key goes with its last sending.
    Returns how many rows went.
    """
    deliveries = yield Statement(sql.DELETE_DELIVERIES, (sendings, limit))
    unread = json_array(sending for sending, read_at_ms in deliveries if read_at_ms is None)
    yield Statement(sql.COUNT_LAPSED, (unread,))
    emptied = yield Statement(sql.DELETE_SENDINGS, (sendings,))
    notifications = json_array(notification for (notification,) in emptied)
    deleted = scalar(int, (yield Statement(sql.DELETE_UNSENT_NOTIFICATIONS, (notifications,))))
    return len(deliveries) + len(emptied) + deleted


def delete_notifications(notifications: Value, limit: int) -> Transaction[int]:
    """Delete up to `limit` rows that say whom the notifications in this JSON array have reached, and those
    that have none left; their sendings are gone. Returns how many rows went.
    """
    covered = scalar(int, (yield Statement(sql.DELETE_COVERED, (notifications, limit))))
    deleted = scalar(int, (yield Statement(sql.DELETE_UNCOVERED_NOTIFICATIONS, (notifications,))))
    return covered + deleted


def delete_project(project: Value, limit: int) -> Transaction[int]:
    """Delete a slice of the project with this number and all that is its; returns how many rows went."""
    ((sendings,),) = yield Statement(sql.SENDINGS, (project, limit))
    swept = yield from delete_sendings(sendings, limit)
    if swept:
        return swept
    ((notifications,),) = yield Statement(sql.NOTIFICATIONS, (project, limit))
    swept = yield from delete_notifications(notifications, limit)
    if swept:
        return swept
    for statement in sql.SWEEP_DELETED:
        deleted = scalar(int, (yield Statement(statement, (project, limit))))
        if deleted:
            return deleted
    return 0
