"""JSON of the notification service (docs/protocol.md, A): to models and back."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, Field

from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.kernel.token_bucket import whole_seconds
from bridge_server.notify.models import AccountFailure, FailureReason, Failures, Notification, NotifyRequest
from bridge_server.notify.openable_url import openable_url
from bridge_server.notify.text import plain_text
from bridge_server.projects.caip10 import account_key, unproven_account_key
from bridge_server.projects.models import TypeId
from bridge_server.web.json_body import JsonObject
from bridge_server.web.shapes import Shape, check, misspelled

TITLE_MAX_CHARACTERS = 64
TEXT_MAX_CHARACTERS = 255
NOTIFY_MAX_ACCOUNTS = 500
LOOKUP_MAX_ACCOUNTS = 100

Url = Annotated[str, Field(max_length=TEXT_MAX_CHARACTERS), AfterValidator(openable_url)]


class NotificationShape(Shape):
    """The member `notification` of a request."""

    type: Annotated[str, Field(min_length=1)]
    title: Annotated[str, AfterValidator(partial(plain_text, most_characters=TITLE_MAX_CHARACTERS))]
    body: Annotated[str, AfterValidator(partial(plain_text, most_characters=TEXT_MAX_CHARACTERS))]
    url: Url | None = None


class NotifyShape(Shape):
    """The body of POST /{project_id}/notify."""

    notification_id: Annotated[str, Field(min_length=1, max_length=TEXT_MAX_CHARACTERS)] | None = None
    notification: NotificationShape
    accounts: Annotated[list[str], Field(min_length=1, max_length=NOTIFY_MAX_ACCOUNTS)]


class LookupShape(Shape):
    """The body of POST /v1/{project_id}/subscribers."""

    accounts: Annotated[list[str], Field(min_length=1, max_length=LOOKUP_MAX_ACCOUNTS)]


def read_notify_request(document: JsonObject) -> NotifyRequest:
    """Read a request to send a notification."""
    keys, faults = account_keys(document.values.get("accounts"), NOTIFY_MAX_ACCOUNTS)
    shape = check(NotifyShape, document.values, misspelled(NotifyShape, document.values) + faults)
    content = shape.notification
    return NotifyRequest(
        Notification(TypeId(content.type), content.title, content.body, content.url),
        shape.notification_id,
        keys,
    )


def read_lookup(document: JsonObject) -> dict[str, str]:
    """Read the accounts to look up: account key by account id. Their checksums are not checked yet."""
    accounts = document.values.get("accounts")
    keys, faults = account_keys(accounts, LOOKUP_MAX_ACCOUNTS, unproven_account_key)
    misspelled_members = misspelled(LookupShape, document.values)
    try:
        check(LookupShape, document.values, misspelled_members + faults)
    except InvalidInputError:  # check again with checksums, to name every fault at once
        _, faults = account_keys(accounts, LOOKUP_MAX_ACCOUNTS)
        check(LookupShape, document.values, misspelled_members + faults)
    return keys


def check_spellings(document: JsonObject, spellings: Collection[str]) -> None:
    """Check the checksums of some account ids of a look-up. Raises InvalidInputError."""
    accounts = document.values["accounts"]
    _, wrong = account_keys(list(spellings), len(accounts))
    if wrong:
        _, faults = account_keys(accounts, len(accounts))
        check(LookupShape, document.values, faults)


def write_outcome(keys: Mapping[str, str], failures: Failures) -> bytes:
    """The answer to POST /{project_id}/notify."""
    return orjson.dumps(outcome_fields(keys, failures))


def outcome_fields(keys: Mapping[str, str], failures: Failures) -> dict[str, Any]:
    """Every account in one list, in the caller's spelling."""
    if not failures:
        return {"sent": list(keys), "failed": [], "not_found": []}
    sent, failed, not_found = [], [], []
    for account, key in keys.items():
        failure = failures.get(key)
        if failure is None:
            sent.append(account)
        elif failure.reason is FailureReason.NOT_SUBSCRIBED:
            not_found.append(account)
        else:
            failed.append(_failed(account, failure))
    return {"sent": sent, "failed": failed, "not_found": not_found}


def write_marked(marked: int) -> bytes:
    """The answer to POST /v1/{project_id}/mark-all-as-read."""
    return b'{"marked":%d}' % marked


def account_keys(
    accounts: Any, most: int, key_of: Callable[[str], str] = account_key, place: str = "#/accounts"
) -> tuple[dict[str, str], list[Fault]]:
    """The account key of each account id, and the faults of account ids that are not valid.

    The shape reports a value that is not a list of strings or has the wrong length.
    """
    if not isinstance(accounts, list) or len(accounts) > most:
        return {}, []
    keys: dict[str, str] = {}
    faults = []
    for number, account in enumerate(accounts):
        try:
            keys[account] = key_of(account)
        except ValueError as error:
            faults.append(Fault(f"{place}/{number}", str(error)))
        except TypeError:  # not hashable, so not a string: the shape reports it
            continue
    return keys, faults


def _failed(account: str, failure: AccountFailure) -> dict[str, str | int]:
    fields: dict[str, str | int] = {"account": account, "reason": failure.reason.value}
    if failure.reason is FailureReason.RATE_LIMITED:
        fields["retry_after"] = whole_seconds(failure.retry_after_us)
    return fields
