"""`bridge-server notify`: a notification to accounts, or to all subscribers of a project."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from typing import Any

import click

from bridge_server.admin.projects.wire import read_account
from bridge_server.cli.files import reading
from bridge_server.cli.notify.report import SendingReport
from bridge_server.cli.notify.walks import WantedNotification, by_admin_token, by_secret
from bridge_server.cli.operator import Operator, for_operator, one_line
from bridge_server.cli.options import CommandError
from bridge_server.cli.progress import NoProgress, Progress, progress_bar
from bridge_server.cli.running_admin import admin_tokens
from bridge_server.cli.running_server import running_url
from bridge_server.cli.subscriber_lines import read_entries
from bridge_server.client import BridgeClientError, NotifyProgress, RequestRefusedError
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.fields import http_url
from bridge_server.kernel.ids import IdMaker
from bridge_server.settings.sources import PROJECT_SECRET_VARIABLE

_PROJECT_ID = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)
_LONGEST_SECRET_BYTES = 4_096


@click.command("notify")
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
@for_operator
def notify_command(
    operator: Operator, to: tuple[str, ...], to_file: str | None, to_all: bool, server: str | None,
    secret_file: str | None, notification_id: str | None, dry_run: bool, **content: Any,
) -> None:  # fmt: skip
    """Send a notification of PROJECT to accounts or to all its subscribers, through a running server.

    The command sends with the project's secret, or without one with the admin_token of the settings. The
    server's limits are waited out. After an interruption the same command with --id goes on. The exit code is
    1 if a named account was not reached, or one of --all that is over its limit.
    """
    if sum((bool(to), to_file is not None, to_all)) != 1:
        raise CommandError("name the receivers once: with --to, with --to-file or with --all")
    if not _PROJECT_ID.fullmatch(content["project_id"]):
        raise CommandError("a project id has 1 to 64 characters of a-z, 0-9 and the hyphen")
    secret = _secret(secret_file)
    accounts = None if to_all else sorted({*map(_checked, to), *_accounts_of(to_file)})
    wanted = WantedNotification(
        **content, to=accounts, notification_id=notification_id or IdMaker().random_uuid(), is_dry_run=dry_run
    )
    report = SendingReport(wanted)
    _send(_walk(operator, server, secret, wanted), report, is_quiet=operator.as_json)
    operator.show(report.fields(), report.lines())
    if report.has_failed:
        raise SystemExit(1)


def _secret(file: str | None) -> str | None:
    """The project's secret, None if the command has none. Raises CommandError."""
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
        accounts = [entry.wanted.account.spelled for entry in read_entries(stream)]
    if not accounts:
        raise CommandError(f"{click.format_filename(file)} has no accounts")
    return accounts


def _checked(account: str) -> str:
    try:
        return read_account(account).spelled
    except InvalidInputError as error:
        raise CommandError(f"--to {account}: {one_line(error)}") from error


def _checked_url(server: str) -> str:
    try:
        return http_url(server)
    except ValueError as error:
        raise CommandError(f"--server {error}") from error


def _walk(
    operator: Operator, server: str | None, secret: str | None, wanted: WantedNotification
) -> AsyncGenerator[NotifyProgress]:
    """The calls that send, by the way that the command can go. Raises CommandError."""
    if server is not None and secret is None:
        raise CommandError(
            "--server takes the project's secret: name its file with --secret-file, "
            f"or set {PROJECT_SECRET_VARIABLE}"
        )
    url = running_url(operator.settings) if server is None else _checked_url(server)
    if url is None:
        raise CommandError(
            f"no server runs on {operator.settings.data_dir}: start it, name its data directory with "
            "--data-dir, or name its URL with --server"
        )
    if secret is not None:
        return by_secret(url, secret, wanted)
    tokens = admin_tokens(operator.settings)
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
        more = report.how_to_go_on() if report.may_have_sent(error) else ""
        raise CommandError(f"{_reason(error)}{more}") from error


async def _sent(walk: AsyncGenerator[NotifyProgress], report: SendingReport, *, is_quiet: bool) -> None:
    with ExitStack() as bars:
        bar: Progress = NoProgress()
        async with aclosing(walk):
            async for progress in walk:
                before, report.progress = report.progress, progress
                report.note(progress)
                if progress.total != before.total:
                    bar = bars.enter_context(progress_bar("Sending", progress.total, is_quiet=is_quiet))
                bar.update(progress.accounts - before.accounts, _waiting(progress))


def _waiting(progress: NotifyProgress) -> str | None:
    if not progress.waits_seconds:
        return None
    return f"waiting {progress.waits_seconds:.0f} s: {progress.because}"


def _reason(error: Exception) -> str:
    if isinstance(error, RequestRefusedError):
        return f"the server refused: {error.status} {error.detail}"
    return str(error).rstrip(".")
