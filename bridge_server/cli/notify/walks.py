"""The two ways of a command to send: with the project's secret, or with the operator's admin_token."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import orjson

from bridge_server.cli.options import CommandError
from bridge_server.client import Notifier, NotifyProgress, RequestRefusedError
from bridge_server.client.http.requests import FailedAttemptError, HttpRequests
from bridge_server.client.notify.calls import NotifyCalls
from bridge_server.client.notify.content import ACCOUNTS_AT_ONCE, chunks, notification_fields
from bridge_server.client.session.pace import Pace

_PACE = Pace(walk_patience_seconds=120.0)
_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class WantedNotification:
    """The notification to send. `to` is None for all subscribers."""

    project_id: str
    type_id: str
    title: str
    body: str
    url: str | None
    to: Sequence[str] | None
    notification_id: str
    is_dry_run: bool


async def by_secret(url: str, secret: str, wanted: WantedNotification) -> AsyncGenerator[NotifyProgress]:
    """Send as the app's backend does. Raises BridgeClientError, ValueError."""
    async with Notifier(url, wanted.project_id, secret, pace=_PACE) as notifier:
        walk = notifier.notify_all(
            wanted.type_id, wanted.title, wanted.body,
            to=wanted.to, url=wanted.url, id=wanted.notification_id, dry_run=wanted.is_dry_run,
        )  # fmt: skip
        async with aclosing(walk):
            async for progress in walk:
                yield progress


async def by_admin_token(
    url: str, tokens: Sequence[str], wanted: WantedNotification
) -> AsyncGenerator[NotifyProgress]:
    """Send as the operator, by the admin API. Raises BridgeClientError, CommandError, ValueError."""
    requests, subscribers = await _opened(url, tokens, wanted.project_id)
    try:
        content = notification_fields(wanted.type_id, wanted.title, wanted.body, wanted.url)
        fields = {"notification": content, "notification_id": wanted.notification_id}
        path = f"/admin/projects/{wanted.project_id}/notify" + ("?dry_run=1" if wanted.is_dry_run else "")
        begun = NotifyProgress(wanted.notification_id)
        total = subscribers if wanted.to is None else len(wanted.to)
        calls = NotifyCalls(requests, path, fields, replace(begun, total=total))
        walk = _to_all(calls) if wanted.to is None else _to_some(calls, wanted.to)
        async with aclosing(walk):
            async for progress in walk:
                yield progress
    finally:
        await requests.close()


async def _to_all(calls: NotifyCalls) -> AsyncGenerator[NotifyProgress]:
    yield calls.progress
    after: str | None = ""
    while after is not None:
        async with aclosing(calls.call({"audience": "all", "after": after}, None)) as calling:
            async for progress in calling:
                yield progress
        after = calls.answer.get("next")


async def _to_some(calls: NotifyCalls, accounts: Sequence[str]) -> AsyncGenerator[NotifyProgress]:
    yield calls.progress
    for some in chunks(accounts, ACCOUNTS_AT_ONCE):
        async with aclosing(calls.call({"audience": {"accounts": some}}, some[-1])) as calling:
            async for progress in calling:
                yield progress


async def _opened(url: str, tokens: Sequence[str], project_id: str) -> tuple[HttpRequests, int]:
    """Requests with the token that the server accepts, and the number of the project's subscribers."""
    for token in tokens:
        requests = HttpRequests(url, None, _PACE, token)
        requests.open()
        try:
            project = orjson.loads(await requests.attempt("GET", f"/admin/projects/{project_id}"))
            return requests, int(project["subscribers"])
        except RequestRefusedError as refusal:
            await requests.close()
            if refusal.status != _UNAUTHORIZED:
                raise
        except (FailedAttemptError, orjson.JSONDecodeError, KeyError, TypeError) as error:
            await requests.close()
            raise CommandError(f"the server at {url} does not answer as a bridge server: {error}") from error
    raise CommandError(
        f"the server at {url} has another admin_token: give the command the server's own settings"
    )
