"""`bridge-server notify`: a notification to accounts, or to all subscribers of a project."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, aclosing
from http import HTTPStatus
from typing import Any

import click

from bridge_server.admin.projects import read_account
from bridge_server.cli import project, running_server
from bridge_server.cli.database_command import DatabaseCommand, database_command
from bridge_server.cli.options import CommandError, command_errors, reading
from bridge_server.cli.output import NoProgress, Progress, columns, progress_bar
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.fields import http_url
from bridge_server.kernel.secrets import IdMaker
from bridge_server.kernel.values import dataclass
from bridge_server.kit import client
from bridge_server.kit.client import BridgeClientError, FailedAccount, NotifyProgress, RequestRefusedError
from bridge_server.kit.client.errors import Pace
from bridge_server.kit.client.http import FailedAttemptError, HttpRequests
from bridge_server.kit.client.notifier import ACCOUNTS_AT_ONCE, NotifyCalls, chunks, notification_fields
from bridge_server.settings.sources import PROJECT_SECRET_VARIABLE

# The two ways of a command to send: with the project's secret, or with the operator's admin_token.

_PACE = Pace(walk_patience_seconds=120.0)


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
    async with client.Notifier(url, wanted.project_id, secret, pace=_PACE) as notifier:
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
    requests = await _opened(url, tokens, wanted.project_id)
    try:
        content = notification_fields(wanted.type_id, wanted.title, wanted.body, wanted.url)
        fields = {"notification": content, "notification_id": wanted.notification_id}
        path = f"/admin/projects/{wanted.project_id}/notify" + ("?dry_run=1" if wanted.is_dry_run else "")
        begun = NotifyProgress(wanted.notification_id, total=None if wanted.to is None else len(wanted.to))
        calls = NotifyCalls(requests, path, fields, begun)
        async with aclosing(calls.call_all() if wanted.to is None else _to_some(calls, wanted.to)) as walk:
            async for progress in walk:
                yield progress
    finally:
        await requests.close()


async def _to_some(calls: NotifyCalls, accounts: Sequence[str]) -> AsyncGenerator[NotifyProgress]:
    yield calls.progress
    for some in chunks(accounts, ACCOUNTS_AT_ONCE):
        async with aclosing(calls.call({"audience": {"accounts": some}}, some[-1])) as calling:
            async for progress in calling:
                yield progress


async def _opened(url: str, tokens: Sequence[str], project_id: str) -> HttpRequests:
    """Requests with the token that the server accepts. Raises CommandError, RequestRefusedError."""
    for token in tokens:
        requests = HttpRequests(url, None, _PACE, token)
        requests.open()
        try:
            await requests.attempt("GET", f"/admin/projects/{project_id}")
        except RequestRefusedError as refusal:
            await requests.close()
            if refusal.status != HTTPStatus.UNAUTHORIZED:
                raise
        except FailedAttemptError as error:
            await requests.close()
            raise CommandError(f"the server at {url} does not answer as a bridge server: {error}") from error
        else:
            return requests
    raise CommandError(
        f"the server at {url} has another admin_token: give the command the server's own settings"
    )


# The progress and the result of a notification's walk, as the command prints them.

_MOST_LISTED = 100
_MOST_LINES = 10


class SendingReport:
    """Counts, and some of the accounts that were not reached, with the reason."""

    def __init__(self, wanted: WantedNotification) -> None:
        self._wanted = wanted
        self._missed: list[FailedAccount] = []
        self.progress = NotifyProgress(wanted.notification_id)

    def note(self, progress: NotifyProgress) -> None:
        """Remember accounts that a call did not reach, as long as there are few."""
        if progress.result is not None and len(self._missed) < _MOST_LISTED:
            unknown = [FailedAccount(account, "not_subscribed") for account in progress.result.not_found]
            self._missed = [*self._missed, *progress.result.failed, *unknown][:_MOST_LISTED]

    @property
    def has_failed(self) -> bool:
        """Whether somebody was not reached: anybody who was named, or a subscriber over the limit."""
        if self._wanted.to is None:
            return self.progress.rate_limited > 0
        return self.progress.sent < self.progress.accounts

    def fields(self) -> dict[str, Any]:
        """The result as JSON. Of the accounts that were not reached it lists 100."""
        done = self.progress
        return {
            "id": self._wanted.notification_id,
            "dry_run": self._wanted.is_dry_run,
            "accounts": done.accounts,
            "sent": done.sent,
            "rate_limited": done.rate_limited,
            "type_not_subscribed": done.type_not_subscribed,
            "not_subscribed": done.not_found,
            "failed": [
                {"account": each.account, "reason": each.reason}
                | ({} if each.retry_after_seconds is None else {"retry_after": each.retry_after_seconds})
                for each in self._missed
            ],
        }

    def lines(self) -> list[str]:
        """The result in words."""
        done = self.progress
        counts = [
            ("would be sent" if self._wanted.is_dry_run else "sent", done.sent),
            ("rate limited", done.rate_limited),
            ("type not subscribed", done.type_not_subscribed),
            ("not subscribed", done.not_found),
        ]
        rows = [(label, f"{count:,}") for label, count in counts if count or label.endswith("sent")]
        identified = [] if self._wanted.is_dry_run else [("id", self._wanted.notification_id)]
        return [*columns([*identified, *rows]), *self._missed_lines()]

    def how_to_go_on(self, error: Exception | None = None) -> str:
        """How a walk goes on that an interruption or an error has ended; empty if nothing can be sent yet."""
        is_lost = isinstance(error, client.BridgeUnreachableError)
        may_have_sent = error is None or self.progress.accounts or is_lost
        if self._wanted.is_dry_run or not may_have_sent:
            return ""
        total = "" if self.progress.total is None else f" of {self.progress.total:,}"
        return (
            f" after {self.progress.accounts:,}{total} accounts; the same command with "
            f"--id {self._wanted.notification_id} goes on, and nobody gets it twice"
        )

    def _missed_lines(self) -> list[str]:
        if self._wanted.to is None or not self._missed:
            return []
        lines = [""]
        for missed in self._missed[:_MOST_LINES]:
            seconds = missed.retry_after_seconds
            waiting = "" if seconds is None else f", again in {seconds:,} s"
            lines.append(f"{missed.account}: {missed.reason.replace('_', ' ')}{waiting}")
        others = self.progress.accounts - self.progress.sent - len(lines) + 1
        return [*lines, f"and {others:,} others"] if others else lines


# The command.

_SHORT_WAIT_SECONDS = 5.0
_PROJECT_ID = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)
_LONGEST_SECRET_BYTES = 4_096


@database_command(click.command("notify"))
@click.argument("project_id", metavar="PROJECT")
@click.option("--type", "type_id", required=True, metavar="TYPE", help="The id of the notification type.")
@click.option("--title", required=True, help="1 to 64 characters.")
@click.option("--body", required=True, help="1 to 255 characters.")
@click.option("--url", help="What the user can open.")
@click.option("--to", metavar="ACCOUNT", multiple=True, help="An account id (CAIP-10); repeatable.")
@click.option(
    "--to-file", metavar="FILE", type=click.Path(allow_dash=True),
    help="A file of account ids, one on each line, or of `subscriber export`; - is standard input.",
)  # fmt: skip
@click.option("--all", "to_all", is_flag=True, help="All subscribers of the project.")
@click.option("--dry-run", is_flag=True, help="Print what sending would do now, and change nothing.")
@click.option(
    "--id", "notification_id", metavar="ID",
    help="The notification id. Repeated with it, the command sends to nobody twice.  [default: random]",
)  # fmt: skip
@click.option("--server", metavar="URL", help="The server.  [default: the one on the data directory]")
@click.option(
    "--secret-file", metavar="FILE", type=click.Path(allow_dash=True),
    envvar=f"{PROJECT_SECRET_VARIABLE}_FILE",
    help=f"The project's secret is the first line of this file.  [default: ${PROJECT_SECRET_VARIABLE}]",
)  # fmt: skip
def notify_command(
    command: DatabaseCommand, to: tuple[str, ...], to_file: str | None, to_all: bool, server: str | None,
    secret_file: str | None, notification_id: str | None, dry_run: bool, **content: Any,
) -> None:  # fmt: skip
    """Send a notification of PROJECT.

    It goes to accounts or to all subscribers, through a running server. The command sends with the project's
    secret, or without one with the admin_token of the settings. The server's limits are waited out. After an
    interruption the same command with --id goes on. The exit code is 1 if a named account was not reached, or
    one of --all that is over its limit.
    """
    if sum((bool(to), to_file is not None, to_all)) != 1:
        raise CommandError("name the receivers with one of --to, --to-file and --all")
    if not _PROJECT_ID.fullmatch(content["project_id"]):
        raise CommandError("a project id has 1 to 64 characters of a-z, 0-9 and the hyphen")
    secret = _secret(secret_file)
    accounts = None if to_all else sorted({*map(_checked, to), *_accounts_of(to_file)})
    wanted = WantedNotification(
        **content, to=accounts, notification_id=notification_id or IdMaker().random_uuid(), is_dry_run=dry_run
    )
    report = SendingReport(wanted)
    _send(_walk(command, server, secret, wanted), report, is_quiet=command.as_json)
    command.show(report.fields(), report.lines())
    if report.has_failed:
        raise SystemExit(1)


def _secret(file: str | None) -> str | None:
    if file is None:
        return os.environ.get(PROJECT_SECRET_VARIABLE) or None
    with reading(file) as stream:
        line = stream.readline(_LONGEST_SECRET_BYTES)
    secret = line.strip().decode("ascii", errors="replace")
    if not secret:
        raise CommandError(f"{click.format_filename(file)} has no secret in its first line")
    return secret


def _accounts_of(file: str | None) -> list[str]:
    """The accounts in a file. Raises CommandError for the first line that is not valid."""
    if file is None:
        return []
    with reading(file) as stream:
        accounts = [entry.wanted.account.spelled for entry in project.read_entries(stream)]
    if not accounts:
        raise CommandError(f"{click.format_filename(file)} has no accounts")
    return accounts


def _checked(account: str) -> str:
    with command_errors(InvalidInputError, about=f"--to {account}: "):
        return read_account(account).spelled


def _walk(
    command: DatabaseCommand, server: str | None, secret: str | None, wanted: WantedNotification
) -> AsyncGenerator[NotifyProgress]:
    """The calls that send, by the way that the command can go. Raises CommandError."""
    if server is not None and secret is None:
        raise CommandError(
            "--server takes the project's secret: name its file with --secret-file, "
            f"or set {PROJECT_SECRET_VARIABLE}"
        )
    with command_errors(ValueError, about="--server "):
        url = running_server.running_url(command.settings) if server is None else http_url(server)
    if url is None:
        raise CommandError(
            f"no server runs on {command.settings.data_dir}: start it, name its data directory with "
            "--data-dir, or name its URL with --server"
        )
    if secret is not None:
        return by_secret(url, secret, wanted)
    tokens = running_server.admin_tokens(command.settings)
    if not tokens:
        raise CommandError(
            "the server sends for the bearer of the project's secret or of admin_token: name the secret's "
            f"file with --secret-file, set {PROJECT_SECRET_VARIABLE}, or use the server's admin_token"
        )
    return by_admin_token(url, tokens, wanted)


def _send(walk: AsyncGenerator[NotifyProgress], report: SendingReport, *, is_quiet: bool) -> None:
    """Send to all. Raises CommandError, which says how to go on if a part was sent."""
    try:
        asyncio.run(_sent(walk, report, is_quiet=is_quiet))
    except KeyboardInterrupt:
        click.echo(f"bridge-server: stopped{report.how_to_go_on()}", err=True)
        raise SystemExit(1) from None
    except (BridgeClientError, ValueError) as error:
        reason = str(error).rstrip(".")
        if isinstance(error, RequestRefusedError):
            reason = f"the server refused: {error.status} {error.detail}"
        raise CommandError(f"{reason}{report.how_to_go_on(error)}") from error


async def _sent(walk: AsyncGenerator[NotifyProgress], report: SendingReport, *, is_quiet: bool) -> None:
    with ExitStack() as bars:
        bar: Progress = NoProgress()
        said_short_wait = False
        async with aclosing(walk):
            async for progress in walk:
                before, report.progress = report.progress, progress
                report.note(progress)
                if progress.total != before.total:
                    bar = bars.enter_context(progress_bar("Sending", progress.total, is_quiet=is_quiet))
                seconds = progress.waits_seconds
                waiting = f"waiting {seconds:.1f} s: {progress.because}" if seconds else None
                if waiting is not None and isinstance(bar, NoProgress):
                    is_short = seconds < _SHORT_WAIT_SECONDS
                    if not (is_short and said_short_wait):  # a long walk has many short waits
                        more = "; further short waits are not printed" if is_short else ""
                        click.echo(f"bridge-server: {waiting}{more}", err=True)
                    said_short_wait = said_short_wait or is_short
                bar.update(progress.accounts - before.accounts, waiting)
