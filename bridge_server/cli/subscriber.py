"""`bridge-server subscriber ...`."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, BinaryIO, TypeAlias

import click
import orjson

from bridge_server.admin.projects.wire import read_account, subscription_fields
from bridge_server.assembly.operator import OperatorServices
from bridge_server.cli.files import STANDARD_STREAM, reading, regular_size, replacing
from bridge_server.cli.groups import Group
from bridge_server.cli.operator import Operator, columns, for_operator, one_line
from bridge_server.cli.options import CommandError
from bridge_server.cli.progress import progress_bar
from bridge_server.cli.subscriber_lines import LineError, SubscriberEntry, read_entries, write_entry
from bridge_server.kernel.errors import BridgeError
from bridge_server.projects.errors import listed
from bridge_server.projects.models import NewSubscription, Subscription, SubscriptionChange, TypeId

_SLICE = 500
_PAGE = 1000
_BYTES_OF_A_STEP = 20_000

Counts: TypeAlias = Counter[SubscriptionChange | None]

_project_argument = click.argument("project_id", metavar="PROJECT")
_accounts_argument = click.argument("accounts", metavar="ACCOUNT...", nargs=-1, required=True)
_file_argument = click.argument("file", default=STANDARD_STREAM, metavar="[FILE]")


@click.group("subscriber", cls=Group)
def subscriber_group() -> None:
    """Manage the subscribers of a project. Works with or without a running server."""


@subscriber_group.command("list")
@_project_argument
@for_operator
def list_command(operator: Operator, project_id: str) -> None:
    """Print the subscribers of a project and their notification types.

    With --json: JSON Lines, one object per subscriber.
    """

    def as_json(page: Sequence[Subscription]) -> bytes:
        return b"".join(
            orjson.dumps(subscription_fields(subscription), option=orjson.OPT_APPEND_NEWLINE)
            for subscription in page
        )

    def as_text(page: Sequence[Subscription]) -> bytes:
        rows = [(subscription.account, ", ".join(subscription.types) or "-") for subscription in page]
        return "".join(f"{line}\n" for line in columns(rows)).encode()

    written = _write_pages(operator, project_id, sys.stdout.buffer, as_json if operator.as_json else as_text)
    if not written and not operator.as_json:
        click.echo("this project has no subscribers")


@subscriber_group.command("add")
@_project_argument
@_accounts_argument
@click.option(
    "--type", "types", metavar="TYPE", multiple=True, help="The id of a notification type; repeatable."
)
@for_operator
def add_command(
    operator: Operator, project_id: str, accounts: tuple[str, ...], types: tuple[str, ...]
) -> None:
    """Subscribe accounts (CAIP-10), or change their types.

    Without --type they receive every type, including types that are added later.
    """
    chosen = tuple(map(TypeId, types)) or None

    async def add(opened: OperatorServices) -> Counts:
        wanted = [NewSubscription(read_account(account), chosen) for account in accounts]
        await _require_types(opened, project_id, chosen or ())
        counts = Counts()
        for some in _slices(wanted):
            counts.update(await _subscribe(opened, project_id, some))
        return counts

    _tell_counts(operator, operator.run(add))


@subscriber_group.command("remove")
@_project_argument
@_accounts_argument
@for_operator
def remove_command(operator: Operator, project_id: str, accounts: tuple[str, ...]) -> None:
    """Unsubscribe accounts (CAIP-10)."""

    async def remove(opened: OperatorServices) -> tuple[int, int]:
        keys = list(dict.fromkeys(read_account(account).key for account in accounts))
        removed = 0
        for some in _slices(keys):
            removed += await opened.subscriptions.unsubscribe(project_id, some)
        return removed, len(keys) - removed

    removed, unknown = operator.run(remove)
    operator.show(
        {"unsubscribed": removed, "not_subscribed": unknown},
        [f"{removed} unsubscribed, {unknown} not subscribed before"],
    )


@subscriber_group.command("export")
@_project_argument
@_file_argument
@for_operator
def export_command(operator: Operator, project_id: str, file: str) -> None:
    """Write the subscribers to FILE (default: standard output) as JSON Lines for `subscriber import`.

    FILE is replaced when the export is complete. With --json and FILE, the number is printed as JSON.
    """

    def as_lines(page: Sequence[Subscription]) -> bytes:
        return b"".join(map(write_entry, page))

    if file == STANDARD_STREAM:
        _write_pages(operator, project_id, sys.stdout.buffer, as_lines)
        return
    with replacing(Path(file)) as stream:
        written = _write_pages(operator, project_id, stream, as_lines, has_bar=not operator.as_json)
    name = click.format_filename(file)
    operator.show({"file": name, "subscribers": written}, [f"{name}: {written} subscribers"])


@subscriber_group.command("import")
@_project_argument
@_file_argument
@for_operator
def import_command(operator: Operator, project_id: str, file: str) -> None:
    """Subscribe the accounts that are listed in FILE (default: standard input).

    A line is an account id (CAIP-10), or a JSON object with account and notification_types; without
    notification_types the account receives every type, including later ones. Lines are stored 500 at a
    time. The first invalid line ends the import, and its number is printed. An import can be repeated.
    """
    with (
        reading(file) as stream,
        progress_bar(
            "Importing", regular_size(stream), least_steps=_BYTES_OF_A_STEP, is_quiet=operator.as_json
        ) as bar,
    ):
        entries = read_entries(stream, bar.update)
        counts = operator.run(lambda opened: _import(opened, project_id, entries))
    _tell_counts(operator, counts)


async def _import(opened: OperatorServices, project_id: str, entries: Iterator[SubscriberEntry]) -> Counts:
    await opened.projects.types(project_id)  # fails before the file is read if there is no project
    counts = Counts()
    try:
        for some in _slices(entries):
            await _require_types_of_entries(opened, project_id, some)
            started = perf_counter()
            counts.update(await _subscribe(opened, project_id, [entry.wanted for entry in some]))
            await asyncio.sleep(perf_counter() - started)  # leaves half of the time to the running server
    except (LineError, BridgeError) as error:
        reason = one_line(error) if isinstance(error, BridgeError) else error.message
        raise CommandError(f"{reason} (imported before that: {counts.total()})") from error
    return counts


async def _subscribe(opened: OperatorServices, project_id: str, wanted: Sequence[NewSubscription]) -> Counts:
    return Counts(change for _, change in await opened.subscriptions.subscribe_all(project_id, wanted))


async def _require_types(opened: OperatorServices, project_id: str, wanted: Iterable[TypeId]) -> None:
    known = [kind.type_id for kind in await opened.projects.types(project_id)]
    for type_id in wanted:
        if type_id not in known:
            raise CommandError(_unknown_type(type_id, known))


async def _require_types_of_entries(
    opened: OperatorServices, project_id: str, entries: Sequence[SubscriberEntry]
) -> None:
    known = [kind.type_id for kind in await opened.projects.types(project_id)]
    for entry in entries:
        for type_id in entry.wanted.types or ():
            if type_id not in known:
                raise LineError(entry.line, _unknown_type(type_id, known))


def _unknown_type(type_id: TypeId, known: Sequence[TypeId]) -> str:
    return f"the project has no notification type {type_id!r}, but {listed(known)}"


def _tell_counts(operator: Operator, counts: Counts) -> None:
    subscribed, updated, unchanged = (
        counts[SubscriptionChange.SUBSCRIBED],
        counts[SubscriptionChange.UPDATED],
        counts[None],
    )
    operator.show(
        {"subscribed": subscribed, "updated": updated, "unchanged": unchanged},
        [f"{subscribed} subscribed, {updated} updated, {unchanged} unchanged"],
    )


def _slices(things: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(things)
    while some := list(islice(iterator, _SLICE)):
        yield some


def _write_pages(
    operator: Operator,
    project_id: str,
    stream: BinaryIO,
    spell: Callable[[Sequence[Subscription]], bytes],
    *,
    has_bar: bool = False,
) -> int:
    """Write every subscription, a page at a time; returns how many."""

    async def write(opened: OperatorServices) -> int:
        written, total = 0, (await opened.projects.show(project_id)).subscribers
        with progress_bar("Exporting", total, is_quiet=not has_bar) as bar:
            async for page in _pages(opened, project_id):
                stream.write(spell(page))
                written += len(page)
                bar.update(len(page))
        stream.flush()
        return written

    return operator.run(write)


async def _pages(opened: OperatorServices, project_id: str) -> AsyncIterator[Sequence[Subscription]]:
    after = ""
    while page := await opened.subscriptions.page(project_id, after, _PAGE):
        yield page
        after = page[-1].account
