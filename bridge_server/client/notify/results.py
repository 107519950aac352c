"""Results of the notification service: frozen values, read from the server's answers."""

from dataclasses import dataclass, replace
from typing import Any, Self

import orjson

from bridge_server.client.session.errors import BadAnswerError

RATE_LIMITED = "rate_limited"
TYPE_NOT_SUBSCRIBED = "type_not_subscribed"


@dataclass(frozen=True, slots=True)
class FailedAccount:
    """An account that did not get the notification.

    `reason` is `rate_limited` or `type_not_subscribed`. A rate-limited account can get the notification after
    `retry_after_seconds`.
    """

    account: str
    reason: str
    retry_after_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class NotifyResult:
    """The outcome of one call. Each account of the call is in one of the three, as the caller spelled it.

    `sent` has also the accounts that an earlier call with this notification id has reached. `not_found` are
    accounts that are not subscribed to the project.
    """

    sent: tuple[str, ...] = ()
    failed: tuple[FailedAccount, ...] = ()
    not_found: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubscribedAccount:
    """A subscribed account and the ids of its notification types."""

    account: str
    notification_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotifyProgress:
    """The progress of a notification to many accounts.

    `id` is the notification id, by which an interrupted walk is taken up again: nobody gets it twice.
    `after` is the last account that was asked for, in the order of account ids. `total` is the number of
    accounts, None as long as it is not known. `accounts` of them are done: those in `sent`, `rate_limited`,
    `type_not_subscribed` and `not_found`. `waits_seconds` is above 0 if the walk waits now, because of a rate
    limit or of a server that cannot be used; `because` says why. `result` is the outcome of the call that was
    made just now.
    """

    id: str | None
    after: str = ""
    total: int | None = None
    accounts: int = 0
    sent: int = 0
    rate_limited: int = 0
    type_not_subscribed: int = 0
    not_found: int = 0
    waits_seconds: float = 0.0
    because: str = ""
    result: NotifyResult | None = None

    def waiting(self, seconds: float, because: str) -> Self:
        """This progress while the walk waits."""
        return replace(self, waits_seconds=seconds, because=because, result=None)

    def with_result(self, result: NotifyResult, after: str) -> Self:
        """The progress after another call, whose last account was `after`."""
        reasons = [failed.reason for failed in result.failed]
        return replace(
            self,
            after=after,
            accounts=self.accounts + len(result.sent) + len(result.failed) + len(result.not_found),
            sent=self.sent + len(result.sent),
            rate_limited=self.rate_limited + reasons.count(RATE_LIMITED),
            type_not_subscribed=self.type_not_subscribed + reasons.count(TYPE_NOT_SUBSCRIBED),
            not_found=self.not_found + len(result.not_found),
            waits_seconds=0.0,
            because="",
            result=result,
        )


def read_answer(body: bytes) -> dict[str, Any]:
    """The JSON object of an answer. Raises BadAnswerError."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise _not_a_server()
    return document


def read_result(document: dict[str, Any]) -> NotifyResult:
    """The outcome of a call to notify. Raises BadAnswerError."""
    try:
        failed = tuple(
            FailedAccount(str(each["account"]), str(each["reason"]), each.get("retry_after"))
            for each in document["failed"]
        )
        return NotifyResult(tuple(document["sent"]), failed, tuple(document["not_found"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise _not_a_server() from error


def read_subscribers(document: dict[str, Any]) -> dict[str, SubscribedAccount]:
    """The subscribers of a look-up. Raises BadAnswerError."""
    try:
        return {
            account: SubscribedAccount(account, tuple(entry["notification_types"]))
            for account, entry in document.items()
        }
    except (KeyError, TypeError) as error:
        raise _not_a_server() from error


def _not_a_server() -> BadAnswerError:
    return BadAnswerError("The server's answer is none of Bridge Server's. Is the URL that of its root?")
