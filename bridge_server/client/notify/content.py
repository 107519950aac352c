"""The content of requests: a notification, its accounts, and JSON."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import orjson

ACCOUNTS_AT_ONCE = 500
LOOKED_UP_AT_ONCE = 100


def notification_fields(type: str, title: str, body: str, url: str | None) -> dict[str, Any]:  # noqa: A002
    """The member `notification` of a request."""
    content = {"type": type, "title": title, "body": body}
    return content if url is None else {**content, "url": url}


def required_accounts(accounts: Iterable[str]) -> list[str]:
    """The accounts as a list. Raises TypeError for a single text, whose characters would be the accounts."""
    if isinstance(accounts, str):
        raise TypeError("the accounts must be a list of account ids, not one text")
    return list(accounts)


def chunks(accounts: Iterable[str], size: int) -> Iterable[Sequence[str]]:
    """The accounts, so many at a time."""
    iterator = iter(accounts)
    while some := list(islice(iterator, size)):
        yield some


def json_body(fields: Any) -> bytes:
    """The JSON of a request. Raises ValueError for half of a surrogate pair, which UTF-8 does not have."""
    try:
        return orjson.dumps(fields)
    except orjson.JSONEncodeError as error:
        raise ValueError(f"the notification cannot be written as JSON: {error}") from error
