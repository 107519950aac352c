"""JSON of the notification service (docs/protocol.md, A): to models and back."""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal, NotRequired
from urllib.parse import quote

from pydantic import AfterValidator, Field, WithJsonSchema

from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.kernel.fields import is_uri
from bridge_server.kernel.token_bucket import whole_seconds
from bridge_server.notify import models
from bridge_server.notify.models import SubscriberAudience
from bridge_server.projects.caip10 import account_key, unproven_account_key, unproven_account_keys
from bridge_server.projects.models import TypeId
from bridge_server.web.bodies import JsonObject, Shape, check, misspelled
from bridge_server.web.shapes import Account, Count, TypedDict, count, text
from bridge_server.web.shapes import TypeId as SpelledTypeId

TITLE_MAX_CHARACTERS = 64
TEXT_MAX_CHARACTERS = 255
NOTIFY_MAX_ACCOUNTS = 500
LOOKUP_MAX_ACCOUNTS = 100

# CR, LF, LINE SEPARATOR and PARAGRAPH SEPARATOR; and the characters of the Unicode category Cc.
_LINE_BREAKS = re.compile("[\r\n\u2028\u2029]+")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")

_REFUSED_SCHEMES = frozenset({"javascript", "data", "vbscript", "file", "blob", "about"})
"""Schemes that run code in the URL, or that show local content."""

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_PARTS = re.compile(r"([^:]+):(?://([^/?#]*))?(.*)")
_NOT_IN_IRIS = frozenset({"Cc", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
"""Unicode categories whose characters an IRI must not contain."""
_BIDI_CONTROLS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Controls of text direction, which can disguise a URL (RFC 3987, 4.1)."""
_WEB = frozenset({"http", "https"})
_LAST_PORT = 65_535


def plain_text(text: str, most_characters: int) -> str:
    """Replace each run of line breaks and each tab by one space, and strip spaces at the ends. Raises
    ValueError unless the result has 1 to `most_characters` code points without control characters.
    """
    plain = one_line(text)
    control = _CONTROL.search(plain)
    if control is not None:
        raise ValueError(f"must not contain control characters, such as U+{ord(control[0]):04X}")
    if not 1 <= len(plain) <= most_characters:
        raise ValueError(f"must have 1 to {most_characters} characters, and has {len(plain)}")
    return plain


def one_line(text: str) -> str:
    """The text in one line, with its spaces as they count."""
    return _LINE_BREAKS.sub(" ", text).replace("\t", " ").strip(" ")


def openable_url(text: str) -> str:
    """The text if it is a URI or an IRI that a user can be offered to open. Raises ValueError."""
    if any(unicodedata.category(each) in _NOT_IN_IRIS for each in text) or _BIDI_CONTROLS.search(text):
        raise ValueError("must not contain spaces, or control characters")
    if not is_uri(_BEYOND_ASCII.sub(lambda found: quote(found[0]), text)):
        raise ValueError("must be an absolute URL, such as https://app.example.org/orders/1 or myapp://open")
    found = _PARTS.fullmatch(text)
    assert found is not None  # is_uri() has accepted it
    scheme, authority, rest = found[1].lower(), found[2], found[3]
    if scheme in _REFUSED_SCHEMES:
        raise ValueError(f"must not be a {scheme} URL, which is not safe to open")
    if authority and "@" in authority:
        raise ValueError("must not name a user or a password")
    if not (authority or rest) or (scheme in _WEB and not _is_web_authority(authority or "")):
        raise ValueError("must name a valid host")
    return text


def _is_web_authority(authority: str) -> bool:
    host, _, port = authority.rpartition(":") if re.search(r":[0-9]*$", authority) else (authority, "", "")
    return bool(host) and (not port or 0 < int(port) <= _LAST_PORT)


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


_ALL = "all"
_ACCOUNTS = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": NOTIFY_MAX_ACCOUNTS}
_AUDIENCES: dict[str, Any] = {
    "oneOf": [
        {"const": _ALL},
        {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
        {"type": "object", "properties": {"accounts": _ACCOUNTS}, "required": ["accounts"]},
    ]
}
"""The schema of the values that `_audience` reads, in the server's description."""


class AudienceNotifyShape(Shape):
    """The body of POST /{project_id}/notify/audience, and of the admin API's call."""

    notification_id: Annotated[str, Field(min_length=1, max_length=TEXT_MAX_CHARACTERS)] | None = None
    notification: NotificationShape
    audience: Annotated[Any, WithJsonSchema(_AUDIENCES)]
    after: Annotated[str, Field(max_length=TEXT_MAX_CHARACTERS)] | None = None


class LookupShape(Shape):
    """The body of POST /v1/{project_id}/subscribers."""

    accounts: Annotated[list[str], Field(min_length=1, max_length=LOOKUP_MAX_ACCOUNTS)]


def read_notify_request(document: JsonObject) -> models.NotifyRequest:
    """Read a request to send a notification."""
    keys, faults = account_keys(document.values.get("accounts"), NOTIFY_MAX_ACCOUNTS)
    shape = check(NotifyShape, document.values, faults)
    return models.NotifyRequest(_notification(shape.notification), shape.notification_id, keys)


def read_audience_request(document: JsonObject, is_dry_run: bool) -> models.AudienceRequest:
    """Read a notification and its audience. One of subscribers needs an id, unless it is a dry run."""
    values = document.values
    audience, faults = _audience(values["audience"]) if "audience" in values else ({}, [])
    if isinstance(audience, SubscriberAudience) and values.get("notification_id") is None and not is_dry_run:
        missing = "is missing: with it a repeated call sends to nobody a second time"
        faults.append(Fault("#/notification_id", missing))
    shape = check(AudienceNotifyShape, values, faults)
    return models.AudienceRequest(
        _notification(shape.notification), shape.notification_id, audience, shape.after or ""
    )


def _audience(value: Any) -> tuple[models.Audience, list[Fault]]:
    """The audience, and its faults."""
    if value == _ALL:
        return SubscriberAudience(None), []
    match value:
        case {"type": str(type_id), **others} if "accounts" not in others:
            return SubscriberAudience(TypeId(type_id)), []
        case {"accounts": [_, *_] as accounts, **others} if "type" not in others:
            place = "#/audience/accounts"
            if len(accounts) > NOTIFY_MAX_ACCOUNTS:
                return {}, [Fault(place, f"must have at most {NOTIFY_MAX_ACCOUNTS} accounts")]
            if not all(isinstance(account, str) for account in accounts):
                return {}, [Fault(place, "must hold strings only")]
            return account_keys(accounts, NOTIFY_MAX_ACCOUNTS, place=place)
    expected = 'must be "all", {"type": ...} or {"accounts": [...]}'
    return {}, [Fault("#/audience", expected)]


def _notification(content: NotificationShape) -> models.Notification:
    return models.Notification(TypeId(content.type), content.title, content.body, content.url)


def read_lookup(document: JsonObject) -> tuple[dict[str, str], JsonObject]:
    """The accounts to look up: account key by account id, checksums unchecked; and where they stand."""
    accounts: Any = document.values.get("accounts")
    keys, faults = _unproven_keys(accounts)
    if keys and len(keys) == len(accounts) and not misspelled(LookupShape, document.values):
        return keys, document
    try:
        check(LookupShape, document.values, faults)
    except InvalidInputError:  # check again with checksums, to name every fault at once
        _, faults = account_keys(accounts, LOOKUP_MAX_ACCOUNTS)
        check(LookupShape, document.values, faults)
    return keys, document


def _unproven_keys(accounts: Any) -> tuple[dict[str, str], list[Fault]]:
    if isinstance(accounts, list) and len(accounts) <= LOOKUP_MAX_ACCOUNTS:
        with suppress(TypeError):  # not all are strings: the shape reports it
            keys = unproven_account_keys(accounts)
            if keys is not None:
                return keys, []
    return account_keys(accounts, LOOKUP_MAX_ACCOUNTS, unproven_account_key)


def check_spellings(document: JsonObject, spellings: Collection[str]) -> None:
    """Check the checksums of some account ids of a look-up. Raises InvalidInputError."""
    if not spellings:
        return
    accounts = document.values["accounts"]
    _, wrong = account_keys(list(spellings), len(accounts))
    if wrong:
        _, faults = account_keys(accounts, len(accounts))
        check(LookupShape, document.values, faults)


def account_keys(
    accounts: Any, most: int, key_of: Callable[[str], str] = account_key, place: str = "#/accounts"
) -> tuple[dict[str, str], list[Fault]]:
    """The account key of each account id, and the faults of account ids that are not valid. The shape reports
    a value that is not a list of strings or has the wrong length.
    """
    if not isinstance(accounts, list) or len(accounts) > most:
        return {}, []
    with suppress(ValueError, TypeError):  # nearly always all are valid, and read at once
        return dict(zip(accounts, map(key_of, accounts), strict=True)), []
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


class FailedAccountAnswer(TypedDict):
    """An account that got nothing, and why."""

    account: Account
    reason: Literal["rate_limited", "type_not_subscribed"]
    retry_after: NotRequired[Annotated[int, count(1800, description="Seconds, if it is rate_limited.")]]


class NotifyOutcomeAnswer(TypedDict):
    """Each account of the request is in exactly one list, once, as the request spelled it."""

    sent: list[Account]
    failed: list[FailedAccountAnswer]
    not_found: list[Account]


class AudienceOutcomeAnswer(NotifyOutcomeAnswer):
    """The outcome for each account of this call. `next` is the `after` of the next call, null at the end;
    `total` is the number of accounts of the whole audience, null in a call with `after`."""

    next: Annotated[str, text("eip155:1:0xab16a96d359ec26a11e2c2b3d8f8b8942d5bfcdb")] | None
    total: Annotated[int, count(1200)] | None


class SubscribedTypesAnswer(TypedDict):
    """The notification types that an account has chosen."""

    notification_types: list[SpelledTypeId]


class MarkedNotificationsAnswer(TypedDict):
    """How many notifications were marked as read."""

    marked: Count


def outcome_fields(keys: Mapping[str, str], failures: models.Failures) -> NotifyOutcomeAnswer:
    """Every account in one list, in the caller's spelling."""
    if not failures:
        return {"sent": list(keys), "failed": [], "not_found": []}
    sent: list[str] = []
    failed: list[FailedAccountAnswer] = []
    not_found: list[str] = []
    for account, key in keys.items():
        failure = failures.get(key)
        if failure is None:
            sent.append(account)
        elif failure.reason is models.FailureReason.NOT_SUBSCRIBED:
            not_found.append(account)
        elif failure.reason is models.FailureReason.RATE_LIMITED:
            seconds = whole_seconds(failure.retry_after_us)
            failed.append({"account": account, "reason": "rate_limited", "retry_after": seconds})
        else:
            failed.append({"account": account, "reason": "type_not_subscribed"})
    return {"sent": sent, "failed": failed, "not_found": not_found}


def audience_outcome_fields(outcome: models.AudienceOutcome) -> AudienceOutcomeAnswer:
    return {**outcome_fields(outcome.keys, outcome.failures), "next": outcome.next, "total": outcome.total}
