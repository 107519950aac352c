"""Notifications of an app's backend."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from bridge_server.client.http.requests import FailedAttemptError
from bridge_server.client.http.retrying_client import RetryingClient
from bridge_server.client.notify.calls import NotifyCalls
from bridge_server.client.notify.content import (
    ACCOUNTS_AT_ONCE,
    LOOKED_UP_AT_ONCE,
    chunks,
    json_body,
    notification_fields,
    required_accounts,
)
from bridge_server.client.notify.listing import Listing
from bridge_server.client.notify.patience import Patience
from bridge_server.client.notify.results import (
    NotifyProgress,
    NotifyResult,
    SubscribedAccount,
    read_answer,
    read_result,
    read_subscribers,
)
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.pairing import sound_bridge_url
from bridge_server.kernel.ids import IdMaker

_PROJECT_ID = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)
_SECRET = re.compile(r"[!-~]{1,4096}", re.ASCII)


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

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
            answer = await self._client.send(
                "POST", self._notify_path(dry_run), fields, repeatable=dry_run or id is not None
            )
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

        Yields the progress: at the start, before anything is sent, with the notification id, which is made if
        none is given; then after each call, and before each wait. Rate limits of calls are waited out, and so
        is a server that restarts. An interrupted walk is taken up again with the same `id`, and nobody gets
        the notification twice; with `after` of its last progress it begins behind that account. Accounts over
        their own rate limit are counted and not waited for: a later walk with the same `id` reaches them.
        """
        accounts = None if to is None else sorted(set(required_accounts(to)))
        if id is None and not dry_run:
            id = IdMaker().random_uuid()  # noqa: A001
        fields = _fields(notification_fields(type, title, body, url), id)
        json_body(fields)
        begun = NotifyProgress(id, after)
        yield begun
        pages = _Pages()
        if accounts is None:
            async for waiting in self._read_all(pages, begun):
                yield waiting
        else:
            pages.add([account for account in accounts if account > after])
        known = replace(begun, total=pages.count)
        sending = NotifyCalls(self._client.requests, self._notify_path(dry_run), fields, known)
        yield known
        for some in chunks(pages, ACCOUNTS_AT_ONCE):
            async with aclosing(sending.call({"accounts": some}, some[-1])) as calling:
                async for progress in calling:
                    yield progress

    async def subscribers(self, *, after: str = "") -> AsyncGenerator[str]:
        """The account ids of all subscribers in order, or of the subscribers after `after`, as they arrive.

        The server allows one listing in 5 minutes, 2 at once; the limit is waited out. A listing that breaks
        off is asked for again and goes on behind the last account.
        """
        async for page in self._pages(after):
            for account in page if isinstance(page, list) else ():
                yield account

    async def lookup(self, accounts: Iterable[str]) -> dict[str, SubscribedAccount]:
        """The subscribers among the accounts, any number, by account id as spelled here."""
        found: dict[str, SubscribedAccount] = {}
        for some in chunks(required_accounts(accounts), LOOKED_UP_AT_ONCE):
            json_body(some)
            async with self._client.patiently("The server did not look up the accounts"):
                answer = await self._client.send(
                    "POST", f"/v1/{self._project}/subscribers", {"accounts": some}
                )
            found |= read_subscribers(read_answer(answer))
        return found

    async def _read_all(self, pages: "_Pages", progress: NotifyProgress) -> AsyncIterator[NotifyProgress]:
        """Read all subscribers into `pages`; yields the progress before each wait."""
        async for page in self._pages(progress.after):
            if isinstance(page, list):
                pages.add(page)
            else:
                yield progress.waiting(page.seconds, page.because)

    async def _pages(self, after: str) -> AsyncGenerator["list[str] | _Wait"]:
        """The pages of the listing, and before each wait how long it will be and why."""
        listing = Listing(self._client.requests, f"/{self._project}/subscribers", after)
        patience = Patience(self._client.bridge_url, self._client.pace)
        while True:
            try:
                async with aclosing(listing.pages()) as pages:
                    async for page in pages:
                        patience.succeeded()
                        yield page
                return
            except FailedAttemptError as failure:
                wait = _Wait(patience.pause_after(failure), str(failure))
            yield wait
            await asyncio.sleep(wait.seconds)

    def _notify_path(self, dry_run: bool) -> str:
        return f"/{self._project}/notify" + ("?dry_run=1" if dry_run else "")


class _Wait:
    """A wait in a listing."""

    def __init__(self, seconds: float, because: str) -> None:
        self.seconds = seconds
        self.because = because


class _Pages:
    """Account ids, kept as JSON: a list of a million strings would take twice the memory."""

    def __init__(self) -> None:
        self._pages: list[bytes] = []
        self.count = 0

    def add(self, accounts: Sequence[str]) -> None:
        self._pages.append(json_body(accounts))
        self.count += len(accounts)

    def __iter__(self) -> Iterator[str]:
        for page in self._pages:
            yield from orjson.loads(page)


def _fields(notification: dict[str, Any], id: str | None) -> dict[str, Any]:  # noqa: A002
    return (
        {"notification": notification}
        if id is None
        else {"notification": notification, "notification_id": id}
    )
