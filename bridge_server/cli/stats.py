"""`bridge-server stats`: the running server at a glance."""

import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from bridge_server.cli.amounts import duration_text, size_text
from bridge_server.cli.clients import client_lines, missing_of
from bridge_server.cli.operator import Operator, columns, for_operator
from bridge_server.cli.running_admin import ask_server

_WATCH_SECONDS = 2.0


@click.command("stats")
@click.option("--watch", is_flag=True, help="Print the figures again every two seconds, until Ctrl-C.")
@for_operator
def stats_command(operator: Operator, watch: bool) -> None:
    """Print the figures of the running server: sessions, calls, outbox, pushes, memory, disk, clients.

    The figures are in the server's memory: it answers them to the bearer of admin_token.
    """
    _print(operator, ask_server(operator.settings, "/admin/stats"), clears=watch)
    if not watch:
        return
    try:
        while True:
            time.sleep(_WATCH_SECONDS)
            _print(operator, ask_server(operator.settings, "/admin/stats"), clears=True)
    except KeyboardInterrupt:
        return


def _print(operator: Operator, stats: dict[str, Any], *, clears: bool) -> None:
    if clears and not operator.as_json and sys.stdout.isatty():
        click.clear()
    operator.show(stats, stats_lines(stats))
    sys.stdout.flush()


def stats_lines(stats: Mapping[str, Any]) -> list[str]:
    """The figures as lines for people."""
    disk, requests, outbox = stats["disk"], stats["requests"], stats["outbox"]
    rows = [
        ("server", f"up {duration_text(stats['up_seconds'])}, at {stats['at']}"),
        ("sessions", f"{stats['sessions']['living']:,} living, {_made(stats['sessions'])}"),
        ("calls", _made(stats["calls"])),
        ("notifications", _made(stats["notifications"])),
        ("waiting", f"{stats['waiting']:,} long polls, {stats['connections']:,} connections"),
        ("sockets", f"{stats['sockets']:,} with {stats['topics']:,} topics; {stats['streams']:,} streams"),
        ("requests", ", ".join(f"{number:,} {name}" for name, number in requests.items())),
        ("outbox", ", ".join(f"{number:,} {name}" for name, number in outbox.items())),
        *((f"push {channel}", _outcomes(each)) for channel, each in stats["pushes"].items()),
        ("approvals", f"{stats['approvals']:,} waiting"),
        ("memory", size_text(stats["memory_bytes"])),
        (
            "disk",
            f"database {size_text(disk['database_bytes'])}, log {size_text(disk['log_bytes'])}, "
            f"{size_text(disk['free_bytes'])} free",
        ),
    ]
    missing = [f"process {each['number']} ({each['url']}) {each['fault']}" for each in missing_of(stats)]
    if "processes" in stats:
        answered = len(stats["processes"]) - len(missing)
        rows.insert(1, ("processes", "; ".join([f"{answered} together", *missing])))
    return [*columns(rows), "", *client_lines(stats["clients"])]


def _made(counts: Mapping[str, int]) -> str:
    return f"{counts['since_start']:,} since the start, {counts['last_minute']:,} in the last minute"


def _outcomes(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items()) or "none"
