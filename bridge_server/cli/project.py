"""`bridge-server project` and `subscriber`: projects, their types, and the accounts that subscribe."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, BinaryIO, TypeAlias

import click
import orjson

from bridge_server.admin import notifications, projects
from bridge_server.assembly.command_line import CommandServices
from bridge_server.cli import options
from bridge_server.cli.database_command import DatabaseCommand, Decorator, database_command
from bridge_server.cli.output import Group, columns, progress_bar, table
from bridge_server.kernel.errors import BridgeError, InvalidInputError
from bridge_server.kernel.instants import rfc3339, spell_day
from bridge_server.kernel.values import dataclass
from bridge_server.projects import models
from bridge_server.projects.models import NewSubscription, Subscription, SubscriptionChange, TypeId, listed

_SHOWN_ONCE = "The secret is not shown again: store it where the app's backend can read it."


def _project_command(group: click.Group, name: str) -> Decorator:
    project_id = click.Argument(["project_id"], metavar="PROJECT")
    return database_command(group.command(name, params=[project_id]))


@click.group("project", cls=Group)
def project_group() -> None:
    """Manage the projects that send notifications. Works with or without a running server.

    With --json a command prints one JSON object, as the admin API answers it.
    """


@database_command(project_group.command("create"))
@click.argument("name")
@click.option("--id", "project_id", help="The project's id: a-z, 0-9 and hyphens.  [default: made from NAME]")
def create_command(command: DatabaseCommand, name: str, project_id: str | None) -> None:
    """Create a project called NAME, and print its first secret, which is shown only once."""
    project, secret = command.run(lambda opened: opened.projects.create(name, project_id), may_create=True)
    lines = columns([("project", project.project_id), ("name", project.name), ("secret", secret.secret)])
    fields = projects.new_project_fields(project, secret, command.servers_limit)
    command.show(fields, [*lines, "", _SHOWN_ONCE])


@database_command(project_group.command("list"))
def list_command(command: DatabaseCommand) -> None:
    """Print every project."""
    found = command.run(lambda opened: opened.projects.overview())
    named = [each.project for each in found]
    rows = [(each.project_id, each.name, rfc3339(each.created_at_ms)) for each in named]
    lines = table(("project", "name", "created"), rows, "there are no projects: `project create` makes one")
    command.show(projects.project_list_fields(found, command.servers_limit), lines)


@_project_command(project_group, "show")
def show_command(command: DatabaseCommand, project_id: str) -> None:
    """Print a project, its notification types, its number of subscribers and the numbers of its secrets."""
    details = command.run(lambda opened: opened.projects.show(project_id))
    fields = projects.details_fields(details, command.servers_limit)
    command.show(fields, _describe(details, fields["account_limit"]))


@_project_command(project_group, "rotate-secret")
def rotate_secret_command(command: DatabaseCommand, project_id: str) -> None:
    """Create a second secret and print it, which is done only once.

    Both secrets are valid until one is revoked with revoke-secret.
    """
    secret = command.run(lambda opened: opened.projects.rotate_secret(project_id))
    lines = columns([("number", str(secret.number)), ("secret", secret.secret)])
    command.show(projects.secret_fields(secret), [*lines, "", _SHOWN_ONCE])


@_project_command(project_group, "revoke-secret")
@click.argument("number", type=click.IntRange(1, 10**18))
def revoke_secret_command(command: DatabaseCommand, project_id: str, number: int) -> None:
    """Revoke the secret with this NUMBER at once; `project show` prints the numbers."""
    command.run(lambda opened: opened.projects.revoke_secret(project_id, number))
    command.show({"success": True}, [f"secret {number} is revoked"])


@_project_command(project_group, "limits")
@click.option("--per-hour", type=float, help="Notifications per hour to one account, on average.")
@click.option("--burst", type=int, help="The most notifications to one account at once.")
@click.option("--reset", is_flag=True, help="Remove the project's limit: the server's applies again.")
def limits_command(
    command: DatabaseCommand, project_id: str, per_hour: float | None, burst: int | None, reset: bool
) -> None:
    """Print or change the rate limit of a project's notifications to one account.

    Without options it prints the limit. --per-hour and --burst go together.
    """
    if reset and (per_hour is not None or burst is not None):
        raise options.CommandError("--reset does not go with --per-hour or --burst")
    if reset:
        project = command.run(lambda opened: opened.projects.reset_account_limit(project_id))
    elif per_hour is not None and burst is not None:
        project = command.run(lambda opened: opened.projects.limit_accounts(project_id, per_hour, burst))
    elif per_hour is None and burst is None:
        project = command.run(lambda opened: opened.projects.show(project_id)).project
    else:
        raise options.CommandError("--per-hour and --burst go together")
    fields = projects.account_limit_fields(project.account_limit, command.servers_limit)
    command.show(fields, [_describe_limit(fields)])


@_project_command(project_group, "webhook")
@click.option("--url", help="POST every change of a subscription to this URL.")
@click.option("--remove", is_flag=True, help="Remove the webhook.")
def webhook_command(command: DatabaseCommand, project_id: str, url: str | None, remove: bool) -> None:
    """Print, set or remove the webhook that receives changes of subscriptions.

    --url also creates the secret that signs the webhook's messages, and prints it, which is done only once.
    """
    if url is not None and remove:
        raise options.CommandError("--url and --remove do not go together")
    if url is not None:
        webhook = command.run(lambda opened: opened.projects.set_webhook(project_id, url))
        lines = columns([("webhook", webhook.url), ("signing secret", webhook.signing_secret)])
        command.show(projects.webhook_fields(webhook), [*lines, "", _SHOWN_ONCE])
    elif remove:
        command.run(lambda opened: opened.projects.remove_webhook(project_id))
        command.show({"success": True}, ["the webhook is removed"])
    else:
        known = command.run(lambda opened: opened.projects.show(project_id)).project.webhook
        shown = None if known is None else known.url
        command.show({"url": shown}, [shown or "there is no webhook"])


@_project_command(project_group, "delete")
@click.option("--yes", is_flag=True, help="Delete without asking.")
def delete_command(command: DatabaseCommand, project_id: str, yes: bool) -> None:
    """Delete a project with its subscriptions, notifications and analytics.

    On a terminal the command asks first; elsewhere, and with --json, it needs --yes.
    """
    if not yes and (command.as_json or not sys.stdin.isatty()):
        raise options.CommandError("this is no terminal to ask at: add --yes to delete the project for good")
    if not yes:
        details = command.run(lambda opened: opened.projects.show(project_id))
        click.confirm(
            f"Delete the project {project_id} ({details.project.name}), its {details.subscribers} "
            "subscriptions and everything that it sent?",
            abort=True,
        )
    command.run(lambda opened: opened.projects.delete(project_id))
    command.show({"success": True}, [f"project {project_id} is deleted"])


@_project_command(project_group, "analytics")
@click.option("--from", "first", metavar="DAY", help="The first day, such as 2026-01-31.")
@click.option("--to", "last", metavar="DAY", help="The last day.  [default: today; the period is 30 days]")
def analytics_command(command: DatabaseCommand, project_id: str, first: str | None, last: str | None) -> None:
    """Print how many notifications were sent and read, by type and by day (UTC).

    A read counts for the day on which the notification was sent. Notifications that mark-all-as-read marked
    do not count in the read rate.
    """
    found = command.run(lambda opened: opened.projects.analytics(project_id, first, last))
    rows = [("type", "day", "sent", "read", "bulk-marked", "read rate")]
    for kind in found.types:
        rows += [_figures_row(kind.type_id, spell_day(day.day), day.figures) for day in kind.days]
        rows.append(_figures_row(kind.type_id, "all", kind.total))
    rows.append(_figures_row("all", "all", found.total))
    heading = f"{spell_day(found.period.first_day)} to {spell_day(found.period.last_day)}"
    lines = [heading, "", *columns(rows, right=(2, 3, 4, 5))]
    command.show(notifications.analytics_fields(found), lines)


def _describe(details: models.ProjectDetails, limit: projects.AccountLimitAnswer) -> list[str]:
    project = details.project
    secrets = [f"{secret.number} (made {rfc3339(secret.created_at_ms)})" for secret in details.secrets]
    types = [f"{kind.type_id} ({kind.name})" for kind in details.types]
    rows = [
        ("project", project.project_id),
        ("name", project.name),
        ("created", rfc3339(project.created_at_ms)),
        ("account limit", _describe_limit(limit)),
        ("webhook", "-" if project.webhook is None else project.webhook.url),
    ]
    for label, entries in (("secrets", secrets), ("types", types)):
        first, *others = entries or ["-"]
        rows += [(label, first), *(("", entry) for entry in others)]
    return columns([*rows, ("subscribers", str(details.subscribers))])


def _describe_limit(limit: projects.AccountLimitAnswer) -> str:
    whose = "the project's own" if limit["own"] else "the server's"
    per_hour = f"{limit['per_hour']:.6f}".rstrip("0").rstrip(".")
    return f"{per_hour} per hour, {limit['burst']} at once ({whose})"


def _figures_row(kind: str, day: str, figures: models.ReadFigures) -> tuple[str, str, str, str, str, str]:
    rate = "-" if figures.read_rate is None else f"{figures.read_rate:.1%}"
    return kind, day, str(figures.sent), str(figures.read), str(figures.bulk_marked), rate


_type_argument = click.argument("type_id", metavar="TYPE")

_NO_TYPES = "this project has no notification types: `project type add` makes one"


type_group = Group("type", help="Manage the notification types of a project, which accounts subscribe to.")


@_project_command(type_group, "add")
@click.argument("name")
@click.option("--id", "type_id", help="The type's id: letters, digits and . _ -  [default: made from NAME]")
def add_type_command(command: DatabaseCommand, project_id: str, name: str, type_id: str | None) -> None:
    """Add a type called NAME. At first only accounts that subscribe to all types receive it."""
    added = command.run(lambda opened: opened.projects.add_type(project_id, name, type_id))
    command.show(projects.type_fields(added), columns([("type", added.type_id), ("name", added.name)]))


@_project_command(type_group, "rename")
@_type_argument
@click.argument("name")
def rename_type_command(command: DatabaseCommand, project_id: str, type_id: str, name: str) -> None:
    """Change the displayed name of a type. Its id stays."""
    renamed = command.run(lambda opened: opened.projects.rename_type(project_id, type_id, name))
    command.show(projects.type_fields(renamed), columns([("type", renamed.type_id), ("name", renamed.name)]))


@_project_command(type_group, "remove")
@_type_argument
def remove_type_command(command: DatabaseCommand, project_id: str, type_id: str) -> None:
    """Remove a type, also from every subscription. Its past notifications stay in the analytics."""
    command.run(lambda opened: opened.projects.remove_type(project_id, type_id))
    command.show({"success": True}, [f"type {type_id} is removed"])


@_project_command(type_group, "list")
def list_types_command(command: DatabaseCommand, project_id: str) -> None:
    """Print the types of a project."""
    types = command.run(lambda opened: opened.projects.types(project_id))
    rows = [(kind.type_id, kind.name, rfc3339(kind.created_at_ms)) for kind in types]
    command.show(projects.type_list_fields(types), table(("type", "name", "created"), rows, _NO_TYPES))


project_group.add_command(type_group)

# Subscribers as lines of text: JSON objects (JSON Lines), or account ids.

_LONGEST_LINE_BYTES = 65_536
_JSON = b"{"
_ONLY_ACCOUNTS = (
    " The line has an account id and nothing else: of a CSV file, give the column without its header."
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SubscriberEntry:
    """The subscription in one line of a file."""

    line: int
    wanted: NewSubscription


class LineError(options.CommandError):
    """A line is not valid."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")


def read_entries(
    stream: BinaryIO, on_bytes: Callable[[int], object] = lambda count: None
) -> Iterator[SubscriberEntry]:
    """The subscriptions in a file's lines; `on_bytes` gets the length of each line. Raises LineError."""
    number = 0
    while line := stream.readline(_LONGEST_LINE_BYTES + 1):
        number += 1
        on_bytes(len(line))
        if len(line) > _LONGEST_LINE_BYTES:
            raise LineError(number, f"is longer than {_LONGEST_LINE_BYTES} bytes")
        text = line.removeprefix(_BYTE_ORDER_MARK).strip() if number == 1 else line.strip()
        if text:
            try:
                yield SubscriberEntry(number, projects.read_subscriber(text))
            except InvalidInputError as error:
                hint = "" if text.startswith(_JSON) else _ONLY_ACCOUNTS
                raise LineError(number, options.one_line(error) + hint) from error


def _line(fields: Mapping[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


_SLICE = 500
_PAGE = 1000
_BYTES_OF_A_STEP = 20_000

Counts: TypeAlias = Counter[SubscriptionChange | None]
_Spell: TypeAlias = Callable[[Sequence[Subscription]], bytes]

_accounts_argument = click.argument("accounts", metavar="ACCOUNT...", nargs=-1, required=True)
_file_argument = click.argument("file", default=options.STANDARD_STREAM, metavar="[FILE]")


subscriber_group = Group(
    "subscriber", help="Manage the subscribers of a project. Works with or without a running server."
)


@_project_command(subscriber_group, "list")
def list_subscribers_command(command: DatabaseCommand, project_id: str) -> None:
    """Print the subscribers of a project and their notification types.

    With --json: JSON Lines, one object per subscriber.
    """

    def as_json(page: Sequence[Subscription]) -> bytes:
        return b"".join(map(_line, map(projects.subscription_fields, page)))

    def as_text(page: Sequence[Subscription]) -> bytes:
        rows = [(subscription.account, ", ".join(subscription.types) or "-") for subscription in page]
        return "".join(f"{line}\n" for line in columns(rows)).encode()

    written = _write_pages(command, project_id, sys.stdout.buffer, as_json if command.as_json else as_text)
    if not written and not command.as_json:
        click.echo("this project has no subscribers")


@_project_command(subscriber_group, "add")
@_accounts_argument
@click.option(
    "--type", "types", metavar="TYPE", multiple=True, help="The id of a notification type; repeatable."
)
def add_subscriber_command(
    command: DatabaseCommand, project_id: str, accounts: tuple[str, ...], types: tuple[str, ...]
) -> None:
    """Subscribe accounts (CAIP-10), or change their types.

    Without --type they receive every type, including types that are added later.
    """
    chosen = tuple(map(TypeId, types)) or None

    async def add(opened: CommandServices) -> Counts:
        wanted = [NewSubscription(projects.read_account(account), chosen) for account in accounts]
        await _require_types(opened, project_id, [(each, None) for each in chosen or ()])
        counts = Counts()
        for some in _slices(wanted):
            counts.update(await _subscribe(opened, project_id, some))
        return counts

    _tell_counts(command, command.run(add))


@_project_command(subscriber_group, "remove")
@_accounts_argument
def remove_subscriber_command(command: DatabaseCommand, project_id: str, accounts: tuple[str, ...]) -> None:
    """Unsubscribe accounts (CAIP-10)."""

    async def remove(opened: CommandServices) -> tuple[int, int]:
        keys = list(dict.fromkeys(projects.read_account(account).key for account in accounts))
        removed = 0
        for some in _slices(keys):
            removed += await opened.subscriptions.unsubscribe_all(project_id, some)
        return removed, len(keys) - removed

    removed, unknown = command.run(remove)
    line = f"{removed} unsubscribed, {unknown} not subscribed before"
    command.show({"unsubscribed": removed, "not_subscribed": unknown}, [line])


@_project_command(subscriber_group, "export")
@_file_argument
def export_command(command: DatabaseCommand, project_id: str, file: str) -> None:
    """Write the subscribers to FILE (default: standard output) as JSON Lines for `subscriber import`.

    FILE is replaced when the export is complete. With --json and FILE, the number is printed as JSON.
    """

    def as_lines(page: Sequence[Subscription]) -> bytes:
        chosen = [{} if each.follows_all else {"notification_types": each.types} for each in page]
        named = zip(page, chosen, strict=True)
        return b"".join(_line({"account": each.account, **types}) for each, types in named)

    if file == options.STANDARD_STREAM:
        _write_pages(command, project_id, sys.stdout.buffer, as_lines)
        return
    with options.replacing(Path(file)) as stream:
        written = _write_pages(command, project_id, stream, as_lines, has_bar=not command.as_json)
    name = click.format_filename(file)
    command.show({"file": name, "subscribers": written}, [f"{name}: {written} subscribers"])


@_project_command(subscriber_group, "import")
@_file_argument
def import_command(command: DatabaseCommand, project_id: str, file: str) -> None:
    """Subscribe the accounts that are listed in FILE (default: standard input).

    A line is an account id (CAIP-10), or a JSON object with account and notification_types; without
    notification_types the account receives every type, including later ones. Lines are stored 500 at a
    time. The first invalid line ends the import, and its number is printed. An import can be repeated.
    """
    with options.reading(file) as stream:
        size, quiet = options.regular_size(stream), command.as_json
        with progress_bar("Importing", size, least_steps=_BYTES_OF_A_STEP, is_quiet=quiet) as bar:
            entries = read_entries(stream, bar.update)
            counts = command.run(lambda opened: _import(opened, project_id, entries))
    _tell_counts(command, counts)


async def _import(opened: CommandServices, project_id: str, entries: Iterator[SubscriberEntry]) -> Counts:
    await opened.projects.types(project_id)  # fails before the file is read if there is no project
    counts = Counts()
    try:
        for some in _slices(entries):
            types = [(each, entry.line) for entry in some for each in entry.wanted.types or ()]
            await _require_types(opened, project_id, types)
            started = perf_counter()
            counts.update(await _subscribe(opened, project_id, [entry.wanted for entry in some]))
            await asyncio.sleep(perf_counter() - started)  # leaves half of the time to the running server
    except (LineError, BridgeError) as error:
        raise options.CommandError(
            f"{options.one_line(error)} (imported before that: {counts.total()})"
        ) from error
    return counts


async def _subscribe(opened: CommandServices, project_id: str, wanted: Sequence[NewSubscription]) -> Counts:
    return Counts(change for _, change in await opened.subscriptions.subscribe_all(project_id, wanted))


async def _require_types(
    opened: CommandServices, project_id: str, wanted: Iterable[tuple[TypeId, int | None]]
) -> None:
    """Raise CommandError for a type that the project lacks: LineError if a line of a file names it."""
    known = [kind.type_id for kind in await opened.projects.types(project_id)]
    for type_id, line in wanted:
        if type_id not in known:
            fault = f"the project has no notification type {type_id!r}, but {listed(known)}"
            raise options.CommandError(fault) if line is None else LineError(line, fault)


def _tell_counts(command: DatabaseCommand, counts: Counts) -> None:
    subscribed, updated = counts[SubscriptionChange.SUBSCRIBED], counts[SubscriptionChange.UPDATED]
    fields = {"subscribed": subscribed, "updated": updated, "unchanged": counts[None]}
    command.show(fields, [", ".join(f"{count} {name}" for name, count in fields.items())])


def _slices(things: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(things)
    while some := list(islice(iterator, _SLICE)):
        yield some


def _write_pages(
    command: DatabaseCommand, project_id: str, stream: BinaryIO, spell: _Spell, *, has_bar: bool = False
) -> int:
    """Write every subscription, a page at a time; returns how many."""

    async def write(opened: CommandServices) -> int:
        written, total = 0, (await opened.projects.show(project_id)).subscribers
        after = ""
        with progress_bar("Exporting", total, is_quiet=not has_bar) as bar:
            while page := await opened.subscriptions.page(project_id, after, _PAGE):
                stream.write(spell(page))
                written += len(page)
                bar.update(len(page))
                after = page[-1].account
        stream.flush()
        return written

    return command.run(write)
