"""JSON of notifications in the inbox (docs/protocol.md, A.7): pages, events and queries."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from pydantic import Field

from bridge_server.inbox.models import Cursor, Filters, NotificationQuery, Page, ReadBy, StoredNotification
from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.kernel.instants import rfc3339
from bridge_server.projects.models import ProjectId
from bridge_server.web.json_body import JsonObject
from bridge_server.web.shapes import Shape, check

MOST_MARKED = 500
MOST_ON_A_PAGE = 100
USUAL_ON_A_PAGE = 50

_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_CURSOR = re.compile(r"([0-9]{1,18})\.([0-9]{0,18})\.([0-9]{1,18})", re.ASCII)
_TRUTH = {"true": True, "false": False}

_QUERY = {
    "project_id": (
        re.compile("[a-z0-9-]{1,64}", re.ASCII),
        "must be the id of a project: a-z, 0-9 and hyphens",
    ),
    "unread": (re.compile("true|false"), "must be true or false"),
    "after": (_CURSOR, "must be `next` or `latest` of an earlier answer"),
    "limit": (re.compile("[1-9][0-9]?|100", re.ASCII), f"must be 1 to {MOST_ON_A_PAGE}"),
}


class ReadShape(Shape):
    """The body of POST /inbox/notifications/read."""

    ids: Annotated[list[str], Field(min_length=1, max_length=MOST_MARKED)]


def read_ids(document: JsonObject) -> list[int]:
    """Read the ids of notifications. A malformed id is ignored, because no notification has it."""
    ids = check(ReadShape, document.values).ids
    return [int(text) for text in ids if _NUMBER.fullmatch(text)]


def read_query(query: Mapping[str, str]) -> NotificationQuery:
    """Read the query string `?project_id=&unread=&after=&limit=`; each parameter is optional.

    `unread=true` selects unread notifications, `unread=false` read ones.
    """
    faults = [fault for name, rule in _QUERY.items() if (fault := _query_fault(name, rule, query))]
    if faults:
        raise InvalidInputError("The query has parameters that cannot be read.", faults)
    project_id, unread = query.get("project_id"), query.get("unread")
    return NotificationQuery(
        Filters(None if project_id is None else ProjectId(project_id), _TRUTH.get(unread or "")),
        _parse_cursor(query.get("after")),
        int(query.get("limit", USUAL_ON_A_PAGE)),
    )


def read_last_event(header: str | None, parameter: str | None) -> int | None:
    """Read the id of the last received event, from the browser's header or the page's query parameter."""
    text = header or parameter
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError("Last-Event-ID must be the id of an event of this stream, or left out.")
    return int(text)


def write_page(page: Page) -> bytes:
    """The answer to GET /inbox/notifications."""
    return orjson.dumps(page_fields(page))


def page_fields(page: Page) -> dict[str, Any]:
    """A page with the cursors of the earlier and of the later notifications."""
    return {
        "notifications": [_notification(notification) for notification in page.notifications],
        "next": None if page.next is None else _spell_cursor(page.next),
        "latest": _spell_cursor(page.latest),
    }


def write_marked(marked: int) -> bytes:
    """The answer to POST /inbox/notifications/read."""
    return b'{"read":%d}' % marked


def write_event(notification: StoredNotification) -> bytes:
    """A notification as an event of GET /inbox/stream."""
    data = orjson.dumps(_notification(notification))
    return b"id: %d\nevent: notification\ndata: %b\n\n" % (notification.sending, data)


def _query_fault(name: str, rule: tuple[re.Pattern[str], str], query: Mapping[str, str]) -> Fault | None:
    pattern, expectation = rule
    value = query.get(name)
    return None if value is None or pattern.fullmatch(value) else Fault(f"#/{name}", expectation)


def _parse_cursor(text: str | None) -> Cursor:
    found = None if text is None else _CURSOR.fullmatch(text)
    if found is None:
        return Cursor()
    since, before, top = found.groups()
    return Cursor(int(since), int(before) if before else None, int(top))


def _spell_cursor(cursor: Cursor) -> str:
    return f"{cursor.since}.{'' if cursor.before is None else cursor.before}.{cursor.top}"


def _notification(notification: StoredNotification) -> dict[str, Any]:
    """A notification in JSON. `read_at` is missing after mark-all-as-read, whose time is not stored."""
    fields: dict[str, Any] = {
        "id": str(notification.sending),
        "project_id": notification.project_id,
        "project_name": notification.project_name,
        "type": notification.type_id,
        "title": notification.title,
        "body": notification.body,
        "url": notification.url,
        "sent_at": rfc3339(notification.sent_at_ms),
        "read": notification.read_by is not None,
        "read_by": None if notification.read_by is None else notification.read_by.value,
    }
    if notification.read_by is ReadBy.USER and notification.read_at_ms is not None:
        fields["read_at"] = rfc3339(notification.read_at_ms)
    return fields
