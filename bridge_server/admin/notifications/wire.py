"""JSON of notifications in the admin API."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.notify.history_models import (
    AccountOutcome,
    DeliveryOutcome,
    NotificationFigures,
    OutcomeCursor,
    OutcomePage,
    PastNotification,
)
from bridge_server.notify.models import (
    Audience,
    AudienceOutcome,
    AudienceRequest,
    Notification,
    SubscriberAudience,
)
from bridge_server.notify.wire import (
    NOTIFY_MAX_ACCOUNTS,
    TEXT_MAX_CHARACTERS,
    NotificationShape,
    account_keys,
    outcome_fields,
)
from bridge_server.projects.models import TypeId
from bridge_server.web.json_body import JsonObject
from bridge_server.web.shapes import Shape, check, misspelled

_ALL = "all"
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_ACCOUNT_PLACE = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})", re.ASCII)
_NOT_A_PLACE = InvalidInputError("The query parameter after takes `next` of an earlier answer.")


_AUDIENCES: dict[str, Any] = {
    "oneOf": [
        {"const": _ALL},
        {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
        {
            "type": "object",
            "properties": {
                "accounts": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 500}
            },
            "required": ["accounts"],
        },
    ]
}
"""The schema of the values that `_audience` reads, in the server's description."""


class OperatorNotifyShape(Shape):
    """The body of POST /admin/projects/{project_id}/notify without its audience."""

    notification_id: Annotated[str, Field(min_length=1, max_length=TEXT_MAX_CHARACTERS)] | None = None
    notification: NotificationShape
    audience: Annotated[Any, WithJsonSchema(_AUDIENCES)]
    after: Annotated[str, Field(max_length=TEXT_MAX_CHARACTERS)] | None = None


def read_place(after: str) -> int | None:
    """Read the number of the last notification of the page before. Raises InvalidInputError."""
    if not after:
        return None
    if not _NUMBER.fullmatch(after):
        raise _NOT_A_PLACE
    return int(after)


def read_account_place(after: str) -> OutcomeCursor:
    """Read the last place of the page of accounts before. Raises InvalidInputError."""
    if not after:
        return OutcomeCursor()
    found = _ACCOUNT_PLACE.fullmatch(after)
    if found is None:
        raise _NOT_A_PLACE
    return OutcomeCursor(int(found[1]), int(found[2]))


def read_outcome(text: str | None) -> DeliveryOutcome | None:
    """Read the outcome whose accounts are wanted; None: all accounts. Raises InvalidInputError."""
    if text is None:
        return None
    try:
        return DeliveryOutcome(text)
    except ValueError as error:
        known = ", ".join(outcome.value for outcome in DeliveryOutcome)
        raise InvalidInputError(f"The query parameter outcome takes one of {known}.") from error


def read_notify(document: JsonObject, is_dry_run: bool) -> AudienceRequest:
    """Read a notification and its audience.

    A call for subscribers needs a notification_id: a later call that repeats it sends to nobody twice.
    """
    values = document.values
    audience, faults = _audience(values["audience"]) if "audience" in values else ({}, [])
    faults += misspelled(OperatorNotifyShape, values)
    if isinstance(audience, SubscriberAudience) and values.get("notification_id") is None and not is_dry_run:
        faults.append(
            Fault("#/notification_id", "is missing: with it a repeated call sends to nobody a second time")
        )
    shape = check(OperatorNotifyShape, values, faults)
    content = shape.notification
    return AudienceRequest(
        Notification(TypeId(content.type), content.title, content.body, content.url),
        shape.notification_id,
        audience,
        shape.after or "",
    )


def audience_outcome_fields(outcome: AudienceOutcome) -> dict[str, Any]:
    """The answer to a call of the operator: the members of notify, and the `after` of the next call."""
    return {**outcome_fields(outcome.keys, outcome.failures), "next": outcome.next}


def notification_page_fields(notifications: Sequence[PastNotification], limit: int) -> dict[str, Any]:
    """A page of at most `limit` notifications. `notifications` has one more if another page follows."""
    page = notifications[:limit]
    return {
        "notifications": [_listed_fields(one) for one in page],
        "next": str(page[-1].number) if len(notifications) > limit else None,
    }


def outcome_page_fields(found: PastNotification, page: OutcomePage) -> dict[str, Any]:
    """A notification, and a page of its accounts."""
    content = found.notification
    return {
        **_listed_fields(found),
        "body": content.body,
        "url": content.url,
        "accounts": [account_outcome_fields(outcome) for outcome in page.outcomes],
        "next": None if page.next is None else f"{page.next.sending}.{page.next.account}",
    }


def account_outcome_fields(outcome: AccountOutcome) -> dict[str, Any]:
    """The outcome of a notification for one account."""
    return {"account": outcome.account, **outcome_moments(outcome)}


def outcome_moments(outcome: AccountOutcome) -> dict[str, Any]:
    """An outcome and its times, without the account."""
    return {
        "outcome": outcome.outcome.value,
        "at": rfc3339(outcome.at_ms),
        "read_at": rfc3339_or_none(outcome.read_at_ms),
        "limited_until": rfc3339_or_none(outcome.retry_at_ms),
    }


def _listed_fields(past: PastNotification) -> dict[str, Any]:
    return {
        "number": past.number,
        "sent_at": rfc3339_or_none(past.created_at_ms),
        "type": past.notification.type_id,
        "title": past.notification.title,
        "notification_id": past.notification_id,
        "figures": _figures_fields(past.figures),
    }


def _figures_fields(figures: NotificationFigures) -> dict[str, Any]:
    return {
        "sent": figures.sent,
        "read": figures.read,
        "bulk_marked": figures.bulk_marked,
        "read_rate": figures.read_rate,
        "rate_limited": figures.rate_limited,
        "type_not_subscribed": figures.type_not_subscribed,
    }


def _audience(value: Any) -> tuple[Audience, list[Fault]]:
    """The audience, and its faults."""
    if value == _ALL:
        return SubscriberAudience(None), []
    match value:
        case {"type": str(type_id), **others} if "accounts" not in others:
            return SubscriberAudience(TypeId(type_id)), []
        case {"accounts": [_, *_] as accounts, **others} if "type" not in others:
            return _accounts(accounts)
    expected = 'must be "all", {"type": ...} or {"accounts": [...]}'
    return {}, [Fault("#/audience", expected)]


def _accounts(accounts: list[Any]) -> tuple[Audience, list[Fault]]:
    place = "#/audience/accounts"
    if len(accounts) > NOTIFY_MAX_ACCOUNTS:
        return {}, [Fault(place, f"must have at most {NOTIFY_MAX_ACCOUNTS} accounts")]
    if not all(isinstance(account, str) for account in accounts):
        return {}, [Fault(place, "must hold strings only")]
    return account_keys(accounts, NOTIFY_MAX_ACCOUNTS, place=place)
