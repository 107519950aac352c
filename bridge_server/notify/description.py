"""The notification service described, beyond its rows (docs/protocol.md, A)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from bridge_server.notify import wire
from bridge_server.web.shapes import (
    ABSENT,
    Account,
    AnswerShape,
    Count,
    DescribedAnswer,
    Operation,
    Parameter,
    TypeId,
    count,
    text,
)

_TAG = "Notifications"
_ACCOUNT = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"

DRY_RUN = Parameter(
    "dry_run",
    "With `1` the answer is what it would be, and nothing is sent. Dry runs have a limit of their own.",
    {"enum": ["0", "1", "true", "false"]},
)
NOTIFICATION_EXAMPLE: Mapping[str, Any] = {
    "type": "price-alert",
    "title": "ETH is up",
    "body": "1 ETH costs 4,000 USD.",
    "url": "https://app.example.org/eth",
}
AUDIENCE_EXAMPLE: Mapping[str, Any] = {
    "notification_id": "eth-4000",
    "notification": NOTIFICATION_EXAMPLE,
    "audience": "all",
}


class FailedAccountAnswer(AnswerShape):
    """An account that got nothing, and why."""

    account: Account
    reason: Literal["rate_limited", "type_not_subscribed"]
    retry_after: Annotated[int, count(1800, description="Seconds, if it is rate_limited.")] = ABSENT


class NotifyOutcomeAnswer(AnswerShape):
    """Each account of the request is in exactly one list, once, as the request spelled it."""

    sent: list[Account]
    failed: list[FailedAccountAnswer]
    not_found: list[Account]


class AudienceOutcomeAnswer(NotifyOutcomeAnswer):
    """The outcome for each account of this call. `next` is the `after` of the next call, null at the end;
    `total` is the number of accounts of the whole audience, null in a call with `after`."""

    next: Annotated[str, text("eip155:1:0xab16a96d359ec26a11e2c2b3d8f8b8942d5bfcdb")] | None
    total: Annotated[int, count(1200)] | None


class SubscribedTypesAnswer(AnswerShape):
    """The notification types that an account has chosen."""

    notification_types: list[TypeId]


class MarkedNotificationsAnswer(AnswerShape):
    """How many notifications were marked as read."""

    marked: Count


NOTIFY_OPERATIONS: Mapping[str, Operation] = {
    "notify": Operation(
        tag=_TAG,
        summary="Send a notification",
        text="Sends a notification to at most 500 accounts. `notification_id` is an idempotency key without "
        "an expiry: a repeat sends the content of the first call to the accounts that it has not reached "
        "yet. To one account a project may send 2 an hour, 50 at once; an account over this limit is in "
        "`failed`, and the status stays 200. A member that is another spelling of a known one is a 400.",
        answers=(DescribedAnswer(200, "What became of each account.", NotifyOutcomeAnswer),),
        body=wire.NotifyShape,
        body_example={
            "notification_id": "eth-4000",
            "notification": NOTIFICATION_EXAMPLE,
            "accounts": [_ACCOUNT],
        },
        parameters=(DRY_RUN,),
    ),
    "notify-audience": Operation(
        tag=_TAG,
        summary="Send a notification to an audience",
        text='`audience` is `"all"`, `{"type": ...}` (the subscribers that have chosen the type) or '
        '`{"accounts": [...]}`. A call sends to at most 500 accounts; it is repeated with `after` set '
        "to `next` until that is null, and nothing has to be listed. For an audience without accounts a "
        "`notification_id` is required: an interrupted walk begins again, and nobody is sent to twice. The "
        "limits are those of `POST /{project_id}/notify`, whose calls count as well.",
        answers=(DescribedAnswer(200, "What became of each account.", AudienceOutcomeAnswer),),
        body=wire.AudienceNotifyShape,
        body_example=AUDIENCE_EXAMPLE,
        parameters=(DRY_RUN,),
    ),
    "subscriber-lookup": Operation(
        tag=_TAG,
        summary="Look up subscribers",
        text="The types of at most 100 accounts, as far as they subscribe to the project, by account as the "
        "request spelled it. Other accounts are left out.",
        answers=(DescribedAnswer(200, "The subscribers among them.", dict[str, SubscribedTypesAnswer]),),
        body=wire.LookupShape,
        body_example={"accounts": [_ACCOUNT]},
    ),
    "subscriber-listing": Operation(
        tag=_TAG,
        summary="List all subscribers",
        text="Every account that subscribes to the project, sorted. The array is streamed, however long "
        "it is.",
        answers=(DescribedAnswer(200, "The accounts.", list[Account]),),
    ),
    "mark-all-as-read": Operation(
        tag=_TAG,
        summary="Mark every notification as read",
        text="Marks all notifications of the project that exist now as read. They do not count in the "
        "read rate.",
        answers=(DescribedAnswer(200, "How many were unread.", MarkedNotificationsAnswer),),
    ),
}
