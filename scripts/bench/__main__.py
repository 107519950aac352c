"""The command: what to measure, how much of it, and the tables."""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from cluster import measure_cluster
from console_page import measure_console
from fan_out import measure_fan_out
from fixtures import measure_fixtures
from instructions import ROWS, measure_instructions
from irn_sockets import measure_idle_irn, measure_irn
from kills import measure_cluster_kills
from machine import METHOD, describe
from notify import measure_lookup, measure_notify
from open_console import measure_open_console
from plan import Plan
from postgres_writes import measure_postgres_writes
from processes import MeasurementError
from pushes import measure_pushes
from report import Row, compared, merged, save, saved_figures, table
from requests_cost import SCENARIOS, measure_scenario
from signing import TASKS, measure_signing
from sizing import measure_sizing, write_page
from sockets import measure_idle_sockets, measure_messages
from start import measure_start
from subscribers import measure_listing
from wake_ups import measure_burst, measure_waiter_memory, measure_wake_ups
from watched import measure_watched

Measure = Callable[[Plan], Iterable[Row]]

_INSTRUCTIONS = "Thousand instructions per request at 64 connections"

SECTIONS: dict[str, dict[str, Measure]] = {
    _INSTRUCTIONS: {"instructions": measure_instructions},
    "CPU time per request at 64 connections": {
        each.name: partial(measure_scenario, each) for each in SCENARIOS
    },
    "A poll that an operator sees, by one that nobody looks at": {
        "watched-get-204": measure_watched,
        "console": measure_console,
    },
    "A console that is left open at 500 requests a second": {"console-browser": measure_open_console},
    "A notification to 500 accounts, by the bare statement that inserts its deliveries": {
        "notify-500": measure_notify
    },
    "Looking up 100 accounts among a million": {"lookup-100": measure_lookup},
    "All subscribers of a project that has a million": {"listing-million": measure_listing},
    "10,000 queued pushes, by a bare client's posts": {"pushes-fcm": measure_pushes},
    "Hashing and signing, by eth-account": {task: partial(measure_signing, task) for task in TASKS},
    "From the wallet's POST to the waiting dapp's answer": {"wake-ups": measure_wake_ups},
    "A burst of answers": {"burst": measure_burst},
    "Memory of a waiting client": {"memory": measure_waiter_memory},
    "Published over WebSockets, by a bare echo": {"socket-messages": measure_messages},
    "Ten thousand idle WebSockets": {"idle-sockets": measure_idle_sockets},
    "Generation 2.x over WebSockets, by a bare echo": {"irn-messages": measure_irn},
    "Ten thousand idle WebSockets of generation 2.x": {"idle-irn-sockets": measure_idle_irn},
    "Messages of one address to many receivers, beside an honest writer": {"fan-out": measure_fan_out},
    "Start, and an idle server": {"start": measure_start},
    "Size of a server": {"sizing": measure_sizing},
    "Writes by 64 at once, on PostgreSQL and on SQLite": {"postgres-writes": measure_postgres_writes},
    "Two processes on one PostgreSQL database": {"cluster": measure_cluster},
    "Answered writes lost by kills of processes and of their database": {
        "cluster-kills": measure_cluster_kills
    },
    "A fixture of pytest, beyond an empty test": {"fixtures": measure_fixtures},
}


_SIZES = frozenset(title for title, measures in SECTIONS.items() if "sizing" in measures)


def _checkout(directory: str) -> Path:
    if not (Path(directory) / "bridge_server" / "__main__.py").is_file():
        raise argparse.ArgumentTypeError(f"{directory} is no checkout: it has no package bridge_server")
    return Path(directory).resolve()


def parse_options() -> argparse.Namespace:
    """The options of the command line."""
    names = [name for measures in SECTIONS.values() for name in measures]
    parser = argparse.ArgumentParser(prog="scripts/bench.py", description="Measures the server.")
    parser.add_argument("--quick", action="store_true", help="fewer, shorter, smaller: a first impression")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument("--rounds", type=int, help="alternations (default 5, quick 3)")
    parser.add_argument("--runs", type=int,
        help="do all of it so often: least and greatest (default 1, with --save or --against 3)")  # fmt: skip
    parser.add_argument("--rows", nargs="+", choices=[each.name for each in ROWS], metavar="NAME",
        help=f"of instructions: {', '.join(each.name for each in ROWS)}")  # fmt: skip
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the figures of instructions there")
    parser.add_argument("--against", type=saved_figures, metavar="FILE",
        help="name rows whose median is 5 percent worse than there")  # fmt: skip
    parser.add_argument("--beside", type=_checkout, metavar="DIRECTORY",
        help="of start: another checkout, in turns with this one")  # fmt: skip
    parser.add_argument("--console-seconds", type=int, help="of console-browser (default 600, quick 20)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write tables for docs/speed.md there")
    parser.add_argument("--write-sizing", action="store_true", help="write that table to docs/operate.md")
    parser.add_argument("--directory", type=Path, help="where the databases are made (default: temporary)")
    return parser.parse_args()


def measure_section(measures: Iterable[tuple[str, Measure]], plan: Plan) -> Iterator[Row]:
    """The rows of a section; a measurement that fails is a row that says so."""
    for name, measure in measures:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        try:
            yield from measure(plan)
        except (MeasurementError, OSError, TimeoutError) as error:
            yield Row(name, failure=str(error) or type(error).__name__)


def run(plan: Plan, only: Sequence[str] | None, runs: int) -> Iterator[tuple[str, list[Row]]]:
    """Measure so many times, and print every section's table as soon as there is one."""
    for title, measures in SECTIONS.items():
        chosen = [(name, measure) for name, measure in measures.items() if not only or name in only]
        if chosen:
            rows = merged(row for _ in range(runs) for row in measure_section(chosen, plan))
            print(f"\n{table(title, rows)}", flush=True)
            yield title, rows


def main() -> None:
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("ended by a signal")
    )  # unwinds: all processes are ended
    options = parse_options()
    with tempfile.TemporaryDirectory(prefix="bridge-bench-", dir=options.directory) as directory:
        plan = Plan(
            Path(directory),
            max(1, options.rounds or (3 if options.quick else 5)),
            options.quick,
            options.console_seconds,
            options.rows,
            options.beside,
        )
        measured_on = describe(plan.directory)
        print(f"{measured_on}\n\n{METHOD}", flush=True)
        usual_runs = 3 if options.save or options.against is not None else 1
        sections = list(run(plan, options.only, max(1, options.runs or usual_runs)))
    if options.write_sizing:
        sizes = [table(title, rows) for title, rows in sections if title in _SIZES]
        write_page(measured_on, "\n\n".join(sizes))
    if options.markdown:
        tables = [table(title, rows, for_documentation=True) for title, rows in sections]
        options.markdown.write_text("\n\n".join([measured_on, *tables]) + "\n")
    counted = [row for title, rows in sections if title == _INSTRUCTIONS for row in rows]
    if options.save:
        save(options.save, counted)
    worse, new = ([], []) if options.against is None else compared(options.against, counted)
    print("\n".join([*worse, *new]))
    if worse or any(row.failure for _, rows in sections for row in rows):
        sys.exit(1)


main()
