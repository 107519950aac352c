"""`bridge-server processes`: the servers that share a PostgreSQL database."""

from collections.abc import Sequence
from typing import Any

import click

from bridge_server.assembly.processes import processes_on
from bridge_server.cli.amounts import duration_text
from bridge_server.cli.operator import Operator, for_operator, table
from bridge_server.cli.options import CommandError
from bridge_server.kernel.instants import rfc3339
from bridge_server.storage.process import Process

_HEADER = ("number", "state", "started", "seen", "version", "url", "wallet")


@click.command("processes")
@for_operator
def processes_command(operator: Operator) -> None:
    """List the servers on the PostgreSQL database, and servers that have stopped within ten minutes.

    A server that is silent has crashed, is frozen, or does not reach the database.
    """
    if operator.settings.database is None:
        raise CommandError(
            "the database is a file in data_dir, which one process uses: several share a PostgreSQL "
            "database, which `database` names"
        )
    found = operator.run(lambda opened: processes_on(opened.foundation.database))
    operator.show({"processes": [_fields(each) for each in found]}, _lines(found))


def _lines(found: Sequence[Process]) -> list[str]:
    return table(_HEADER, [_row(each) for each in found], "no server uses the database")


def _row(process: Process) -> Sequence[str]:
    seen = f"{duration_text(int(process.seen_seconds_ago))} ago"
    wallet = "holds it" if process.holds_wallet else ""
    started = _started(process) or "-"
    return str(process.number), process.state, started, seen, process.version, process.url, wallet


def _fields(process: Process) -> dict[str, Any]:
    return {
        "number": process.number,
        "url": process.url,
        "version": process.version,
        "state": process.state,
        "started_at": _started(process),
        "seen_seconds_ago": process.seen_seconds_ago,
        "holds_wallet": process.holds_wallet,
    }


def _started(process: Process) -> str | None:
    return None if process.started_at_ms is None else rfc3339(process.started_at_ms)
