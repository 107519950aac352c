"""Notifications of an app's backend: `Notifier`, its results, and walks through many accounts."""

import asyncio
import logging
import random
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Self

import aiohttp
import orjson

from bridge_server.kernel.secrets import IdMaker
from bridge_server.kit.client.errors import BadAnswerError, BridgeUnreachableError, Pace
from bridge_server.kit.client.http import FailedAttemptError, HttpRequests, RetryingClient
from bridge_server.kit.client.pairing import sound_bridge_url
from bridge_server.kit.client.payloads import read_object

ACCOUNTS_AT_ONCE = 500
LOOKED_UP_AT_ONCE = 100
RATE_LIMITED = "rate_limited"
TYPE_NOT_SUBSCRIBED = "type_not_subscribed"

_PROJECT_ID = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)
_SECRET = re.compile(r"[!-~]{1,4096}", re.ASCII)
_LONGEST_REST_BYTES = 1_048_576
"""Bytes without the end of a string: far longer than any account id."""
_TOO_MANY_REQUESTS = 429

_log = logging.getLogger(__name__)


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
    accounts. For all subscribers it is None until the first call is answered, and always in a walk that
    begins behind an account. `accounts` of them are done: those in `sent`, `rate_limited`,
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


class Notifier:
    """Sends notifications of a project: `async with Notifier(url, project, secret) as notifier`.

    `url` is the root of the server, `secret` the project's, which belongs to the backend and to no web page.
    A client session passed as `http` stays open. Every method can be cancelled, and calls can be concurrent.

    Requests that fail are retried if that is safe: requests that only read, calls to notify with an `id`,
    and requests that the server has certainly not processed. Raises BadPairingError for an invalid URL,
    ValueError for an invalid project id or secret. Methods raise RequestRefusedError (401: the project or
    the secret is not valid; 400: the text says what is wrong; 429: after `retry_after_seconds`),
    BridgeUnreachableError and BadAnswerError.
    """

    def __init__(
        self,
        url: str,
        project: str,
        secret: str,
        *,
        http: aiohttp.ClientSession | None = None,
        pace: Pace | None = None,
    ) -> None:
        if not _PROJECT_ID.fullmatch(project):
            raise ValueError("a project id has 1 to 64 characters of a-z, 0-9 and the hyphen")
        if not _SECRET.fullmatch(secret):
            raise ValueError("a secret has visible ASCII characters only, without spaces and line ends")
        self._project = project
        self._client = RetryingClient(sound_bridge_url(url), http, pace or Pace(), secret)

    async def __aenter__(self) -> Self:
        self._client.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def notify(
        self,
        type: str,  # noqa: A002
        title: str,
        body: str,
        to: Iterable[str],
        *,
        url: str | None = None,
        id: str | None = None,  # noqa: A002
        dry_run: bool = False,
    ) -> NotifyResult:
        """Send a notification of this type to at most 500 accounts (CAIP-10 ids).

        `url` is what the user can open. `id` is the notification id, an idempotency key: repeated with it, a
        call sends to nobody twice. Without it the call is not retried if the server may have processed it. A
        dry run returns what sending would return now, and changes nothing. Raises ValueError for more
        accounts.
        """
        accounts = required_accounts(to)
        if len(accounts) > ACCOUNTS_AT_ONCE:
            raise ValueError(f"one call takes {ACCOUNTS_AT_ONCE} accounts: notify_all(to=...) any number")
        fields = {**_fields(notification_fields(type, title, body, url), id), "accounts": accounts}
        json_body(fields)
        async with self._client.patiently("The server did not confirm the notification"):
            path, repeatable = self._notify_path("", dry_run), dry_run or id is not None
            answer = await self._client.send("POST", path, fields, repeatable=repeatable)
        return read_result(read_answer(answer))

    async def notify_all(
        self,
        type: str,  # noqa: A002
        title: str,
        body: str,
        *,
        to: Iterable[str] | None = None,
        url: str | None = None,
        id: str | None = None,  # noqa: A002
        after: str = "",
        dry_run: bool = False,
    ) -> AsyncGenerator[NotifyProgress]:
        """Send a notification to all subscribers, or to any number of accounts, 500 with each call.

        The server walks through its subscribers: nothing is listed. Yields the progress: at the start, before
        anything is sent, with the notification id, which is made if none is given; then after each call, and
        before each wait. Rate limits of calls are waited out, and so is a server that restarts. An
        interrupted walk is taken up again with the same `id`, and nobody gets the notification twice; with
        `after` of its last progress it begins behind that account. Accounts over their own rate limit are
        counted and not waited for: a later walk with the same `id` reaches them.
        """
        accounts = None if to is None else sorted(set(required_accounts(to)))
        if id is None and not dry_run:
            id = IdMaker().random_uuid()  # noqa: A001
        fields = _fields(notification_fields(type, title, body, url), id)
        json_body(fields)
        progress = NotifyProgress(id, after)
        yield progress
        if accounts is None:
            calls = NotifyCalls(self._client, self._notify_path("/audience", dry_run), fields, progress)
            async with aclosing(calls.call_all()) as calling:
                async for progress in calling:
                    yield progress
            return
        behind = [account for account in accounts if account > after]
        progress = replace(progress, total=len(behind))
        yield progress
        calls = NotifyCalls(self._client, self._notify_path("", dry_run), fields, progress)
        for some in chunks(behind, ACCOUNTS_AT_ONCE):
            async with aclosing(calls.call({"accounts": some}, some[-1])) as calling:
                async for progress in calling:
                    yield progress

    async def subscribers(self, *, after: str = "") -> AsyncGenerator[str]:
        """The account ids of all subscribers in order, or of the subscribers after `after`, as they arrive.

        The server allows one listing in 5 minutes, 2 at once; the limit is waited out. A listing that breaks
        off is asked for again and goes on behind the last account.
        """
        listing = Listing(self._client, f"/{self._project}/subscribers", after)
        patience = Patience(self._client.url, self._client.pace)
        while True:
            try:
                async with aclosing(listing.pages()) as pages:
                    async for page in pages:
                        patience.succeeded()
                        for account in page:
                            yield account
                return
            except FailedAttemptError as failure:
                pause = patience.pause_after(failure)
            await asyncio.sleep(pause)

    async def lookup(self, accounts: Iterable[str]) -> dict[str, SubscribedAccount]:
        """The subscribers among the accounts, any number, by account id as spelled here."""
        found: dict[str, SubscribedAccount] = {}
        path = f"/v1/{self._project}/subscribers"
        for some in chunks(required_accounts(accounts), LOOKED_UP_AT_ONCE):
            json_body(some)
            async with self._client.patiently("The server did not look up the accounts"):
                answer = await self._client.send("POST", path, {"accounts": some})
            found |= read_subscribers(read_answer(answer))
        return found

    def _notify_path(self, more: str, dry_run: bool) -> str:
        return f"/{self._project}/notify{more}" + ("?dry_run=1" if dry_run else "")


class NotifyCalls:
    """Makes calls that can be repeated: they have a notification id, or are dry runs.

    `fields` are the members that every call has. `answer` is the answer to the last call.
    """

    def __init__(
        self, requests: HttpRequests, path: str, fields: Mapping[str, Any], progress: NotifyProgress
    ) -> None:
        self._requests = requests
        self._path = path
        self._fields = fields
        self._patience = Patience(requests.url, requests.pace)
        self.progress = progress
        self.answer: dict[str, Any] = {}

    async def call(self, more: Mapping[str, Any], after: str | None) -> AsyncGenerator[NotifyProgress]:
        """Make a call until it is answered; yields the progress before each wait, and at the end.

        `after` is the last account of the call; None takes the last account of the answer. Raises
        RequestRefusedError, BridgeUnreachableError, BadAnswerError.
        """
        body = json_body({**self._fields, **more})
        while True:
            try:
                self.answer = read_answer(await self._requests.attempt("POST", self._path, body))
                break
            except FailedAttemptError as failure:
                pause, because = self._patience.pause_after(failure), str(failure)
            yield replace(self.progress, waits_seconds=pause, because=because, result=None)
            await asyncio.sleep(pause)
        self._patience.succeeded()
        result = read_result(self.answer)
        if after is None:
            accounts = (*result.sent, *(each.account for each in result.failed), *result.not_found)
            after = _next(self.answer) or max(accounts, default=self.progress.after)
        self.progress = self.progress.with_result(result, after)
        yield self.progress

    async def call_all(self) -> AsyncGenerator[NotifyProgress]:
        """Send to all subscribers behind the account of the progress, as the server walks through them."""
        after: str | None = self.progress.after
        begins = not after
        while after is not None:
            async with aclosing(self.call({"audience": "all", "after": after}, None)) as calling:
                async for progress in calling:
                    if begins and progress.result is not None:
                        begins, total = False, self.answer.get("total")
                        if not isinstance(total, int):
                            raise _not_a_server()
                        self.progress = progress = replace(progress, total=total)
                    yield progress
            after = _next(self.answer)


def _next(answer: Mapping[str, Any]) -> str | None:
    """The account behind which the next call begins; None at the end. Raises BadAnswerError."""
    following = answer.get("next", 0)
    if following is not None and not isinstance(following, str):
        raise _not_a_server()
    return following


class Patience:
    """The waits between attempts, which end when the server has failed for too long.

    A 429 is waited out however often it comes: the server works, and the walk is only faster than its limit.
    """

    def __init__(self, url: str, pace: Pace) -> None:
        self._url = url
        self._pace = pace
        self._failures = 0
        self._failing_since: float | None = None

    def succeeded(self) -> None:
        """Forget the failures."""
        self._failures, self._failing_since = 0, None

    def pause_after(self, failure: FailedAttemptError) -> float:
        """The seconds to wait after a failed attempt. Raises BridgeUnreachableError."""
        self._failures += 1
        pause = self._pace.retry_seconds(self._failures, random.random(), failure.asked_seconds)  # noqa: S311
        if failure.refusal is not None and failure.refusal.status == _TOO_MANY_REQUESTS:
            self._failing_since = None
        else:
            now = asyncio.get_running_loop().time()
            self._failing_since = now if self._failing_since is None else self._failing_since
            if now + pause > self._failing_since + self._pace.walk_patience_seconds:
                text = f"The server {self._url} cannot be used: {failure}."
                raise BridgeUnreachableError(text) from failure
        _log.info("%s: %s; again in %.1f s", self._url, failure, pause)
        return pause


# The content of requests, and their answers.


def notification_fields(type: str, title: str, body: str, url: str | None) -> dict[str, Any]:  # noqa: A002
    """The member `notification` of a request."""
    content = {"type": type, "title": title, "body": body}
    return content if url is None else {**content, "url": url}


def _fields(notification: dict[str, Any], id: str | None) -> dict[str, Any]:  # noqa: A002
    fields: dict[str, Any] = {"notification": notification}
    return fields if id is None else {**fields, "notification_id": id}


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


def read_answer(body: bytes) -> dict[str, Any]:
    """The JSON object of an answer. Raises BadAnswerError."""
    document = read_object(body)
    if document is None:
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
        types = {account: tuple(entry["notification_types"]) for account, entry in document.items()}
        return {account: SubscribedAccount(account, each) for account, each in types.items()}
    except (KeyError, TypeError) as error:
        raise _not_a_server() from error


def _not_a_server() -> BadAnswerError:
    return BadAnswerError("The server's answer is none of Bridge Server's. Is the URL that of its root?")


# All subscribers of a project: one long answer, in the order of account ids, read as it arrives.


class Listing:
    """The account ids that follow `after`. After a failure another reading goes on behind the last one.

    The answer is a JSON array. No account id has a quotation mark or a comma.
    """

    def __init__(self, requests: HttpRequests, path: str, after: str = "") -> None:
        self._requests = requests
        self._path = path
        self._after = after

    async def pages(self) -> AsyncGenerator[list[str]]:
        """Ask for the listing, and yield pages of it. Raises what `HttpRequests.attempt` raises."""
        self._rest, self._opening = b"", b"["
        async with aclosing(self._requests.pieces(self._path)) as answer:
            async for piece in answer:
                if page := self._following(self._complete(piece)):
                    yield page
        if page := self._following(self._strings(self._rest)):
            yield page

    def _following(self, accounts: list[str]) -> list[str]:
        following = [account for account in accounts if account > self._after]
        self._after = following[-1] if following else self._after
        return following

    def _complete(self, piece: bytes) -> list[str]:
        """The strings that are complete by now. Raises BadAnswerError."""
        self._rest += piece
        end = self._rest.rfind(b'",') + 1
        if end:
            complete, self._rest = self._rest[:end], self._rest[end:]
            return self._strings(complete + b"]")
        if len(self._rest) > _LONGEST_REST_BYTES:
            raise _not_a_listing()
        return []

    def _strings(self, text: bytes) -> list[str]:
        """The strings of a part of the array, which begins with `[` at its start, later with a comma."""
        if not text.startswith(self._opening):
            raise _not_a_listing()
        self._opening = b","
        try:
            strings = orjson.loads(b"[" + text[1:])
        except orjson.JSONDecodeError as error:
            raise _not_a_listing() from error
        if not isinstance(strings, list) or not all(isinstance(each, str) for each in strings):
            raise _not_a_listing()
        return strings


def _not_a_listing() -> BadAnswerError:
    return BadAnswerError("The server's answer is no list of accounts. Is the URL that of its root?")
