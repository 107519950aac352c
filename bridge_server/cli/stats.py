"""`bridge-server stats`, `clients`, `processes` and `console`: the running servers at a glance."""

import asyncio
import sys
import time
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from bridge_server.assembly.command_line import console_access
from bridge_server.cli.database_command import DatabaseCommand, database_command
from bridge_server.cli.options import CommandError
from bridge_server.cli.output import columns, duration_text, size_text, table
from bridge_server.cli.running_server import CONSOLE_URL, ask_server, running_url
from bridge_server.kernel.instants import rfc3339
from bridge_server.storage.database import Process
from bridge_server.web.recorder import ORDERS

_WATCH_SECONDS = 2.0


@database_command(click.command("stats"))
@click.option("--watch", is_flag=True, help="Print the figures again every two seconds, until Ctrl-C.")
def stats_command(command: DatabaseCommand, watch: bool) -> None:
    """Print the figures of the running server.

    They are sessions, calls, outbox, pushes, memory, disk and clients. The figures are in the server's
    memory: it answers them to the bearer of admin_token.
    """
    _print_stats(command, clears=watch)
    with suppress(KeyboardInterrupt):
        while watch:
            time.sleep(_WATCH_SECONDS)
            _print_stats(command, clears=True)


def _print_stats(command: DatabaseCommand, *, clears: bool) -> None:
    stats = ask_server(command.settings, "/admin/stats")
    if clears and not command.as_json and sys.stdout.isatty():
        click.clear()
    command.show(stats, stats_lines(stats))
    sys.stdout.flush()


def stats_lines(stats: Mapping[str, Any]) -> list[str]:
    """The figures as lines for people."""
    disk = stats["disk"]
    rows = [
        ("server", f"up {duration_text(stats['up_seconds'])}, at {stats['at']}"),
        ("sessions", f"{stats['sessions']['living']:,} living, {_made(stats['sessions'])}"),
        ("calls", _made(stats["calls"])),
        ("notifications", _made(stats["notifications"])),
        ("waiting", f"{stats['waiting']:,} long polls, {stats['connections']:,} connections"),
        ("sockets", f"{stats['sockets']:,} with {stats['topics']:,} topics; {stats['streams']:,} streams"),
        ("requests", _counted(stats["requests"])),
        ("outbox", _counted(stats["outbox"])),
        *((f"push {channel}", _counted(each) or "none") for channel, each in stats["pushes"].items()),
        ("approvals", f"{stats['approvals']:,} waiting"),
        ("memory", size_text(stats["memory_bytes"])),
        (
            "disk",
            f"database {size_text(disk['database_bytes'])}, log {size_text(disk['log_bytes'])}, "
            f"{size_text(disk['free_bytes'])} free",
        ),
    ]
    missing = [f"{name} {fault}" for name, fault in _missing(stats)]
    if "processes" in stats:
        answered = len(stats["processes"]) - len(missing)
        rows.insert(1, ("processes", "; ".join([f"{answered} together", *missing])))
    return [*columns(rows), "", *client_lines(stats["clients"])]


def _made(counts: Mapping[str, int]) -> str:
    return f"{counts['since_start']:,} since the start, {counts['last_minute']:,} in the last minute"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items())


# `bridge-server clients`: the client addresses that ask for the most, or are refused the most.

_REQUESTS = "requests"
_CLIENTS_HEADER = ("client", _REQUESTS, "refused", "sessions", "sockets", "waits", "bytes", "refused by")


@database_command(click.command("clients"))
@click.option(
    "--by", type=click.Choice(ORDERS), default=_REQUESTS, show_default=True, help="The figure to sort by."
)
@click.option(
    "--last", default="1h", show_default=True, metavar="TIME",
    help="How far back: 5m to 1h, or start for everything since the server's start.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
def clients_command(command: DatabaseCommand, by: str, last: str, limit: int) -> None:
    """Print the heaviest clients of the server.

    A client is an address, or the /64 of an IPv6 address. The figures are in the server's memory: it answers
    them to the bearer of admin_token.
    """
    fields = ask_server(command.settings, "/admin/clients", {"by": by, "last": last, "limit": str(limit)})
    missing = [f"without {name}, which {fault}" for name, fault in _missing(fields)]
    shown: dict[str, Any] = {name: fields[name] for name in ("clients", "processes") if name in fields}
    command.show(shown, [*client_lines(fields["clients"], by), *missing])


def _missing(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The processes whose figures are not in the answer, each with the reason."""
    missing = [each for each in fields.get("processes", ()) if each["fault"] is not None]
    return [(f"process {each['number']} ({each['url']})", each["fault"]) for each in missing]


def client_lines(clients: Sequence[Mapping[str, Any]], by: str = _REQUESTS) -> list[str]:
    """The lines of a table of clients, which are sorted by this figure."""
    if not clients and by != _REQUESTS:
        return [f"no client has any {by} in this time: --by {_REQUESTS} lists all clients"]
    if not clients:
        return ["no client has asked for anything in this time"]
    rows: list[Sequence[str]] = [_CLIENTS_HEADER]
    for client in clients:
        counted = (f"{client[name]:,}" for name in _CLIENTS_HEADER[1:6])
        limits = ", ".join(f"{name} {count:,}" for name, count in client["refused_by"].items())
        rows.append((client["address"], *counted, size_text(client["bytes"]), limits))
    return columns(rows, right=(1, 2, 3, 4, 5, 6))


# `bridge-server processes`: the servers that share a PostgreSQL database.

_PROCESSES_HEADER = ("number", "state", "started", "seen", "version", "url", "wallet")


@database_command(click.command("processes"))
def processes_command(command: DatabaseCommand) -> None:
    """List the servers on the PostgreSQL database.

    Servers that have stopped within ten minutes are listed, too. A server that is silent has crashed, is
    frozen, or does not reach the database.
    """
    if command.settings.database is None:
        raise CommandError(
            "the database is a file in data_dir, which one process uses: several share a PostgreSQL "
            "database, which `database` names"
        )
    found = command.run(lambda opened: opened.foundation.backend.processes())
    rows = [
        (
            str(each.number), each.state, _started(each) or "-",
            f"{duration_text(int(each.seen_seconds_ago))} ago", each.version, each.url,
            "holds it" if each.holds_wallet else "",
        )
        for each in found
    ]  # fmt: skip
    fields = [
        {
            "number": each.number, "url": each.url, "version": each.version, "state": each.state,
            "started_at": _started(each), "seen_seconds_ago": each.seen_seconds_ago,
            "holds_wallet": each.holds_wallet,
        }
        for each in found
    ]  # fmt: skip
    command.show({"processes": fields}, table(_PROCESSES_HEADER, rows, "no server uses the database"))


def _started(process: Process) -> str | None:
    return None if process.started_at_ms is None else rfc3339(process.started_at_ms)


# `bridge-server console`: a link that signs in, and its opening in the browser.


@database_command(click.command("console"))
@click.option("--sign-out", is_flag=True, help="End every session and every link that was not opened.")
def console_command(command: DatabaseCommand, sign_out: bool) -> None:
    """Print a link that signs in to the console.

    It leads to the console of the running server, and works once, within 5 minutes. The sign-in lasts 12
    hours.
    """
    if sign_out:
        ended = command.run(lambda opened: console_access(opened.foundation).store.sign_out_all())
        command.show({"signed_out": ended}, [f"{ended} sessions are ended"])
        return
    url = running_url(command.settings, CONSOLE_URL)
    if url is None and running_url(command.settings) is None:
        raise CommandError(
            f"no server runs on {command.settings.data_dir}: start it with the setting console=on "
            "(BRIDGE_CONSOLE=on)"
        )
    if url is None:
        raise CommandError(
            "the running server has no console: set console=on (BRIDGE_CONSOLE=on), and restart it"
        )
    token = command.run(lambda opened: console_access(opened.foundation).new_link())
    link = sign_in_link(url, token)
    command.show({"link": link}, [link])


def sign_in_link(console: str, token: str) -> str:
    """The URL that signs a browser in to the console at this URL."""
    return f"{console}/sign-in?link={token}"


# `dev --open`: the console in the browser, signed in by a link that works once.


async def open_console(link: str, write: Callable[[str], None]) -> None:
    """Open the link in the browser; without a browser, say so."""
    if not await asyncio.to_thread(webbrowser.open, link):
        write("there is no browser to open: use the link above")
