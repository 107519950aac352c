"""The command: what to measure, how much of it, and the tables."""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType

from envelope_cost import ENVELOPED, measure_envelope
from growth import measure_growth
from irn_sockets import measure_idle_irn, measure_irn
from listing import measure_listing
from load import choose_generator
from lookup_cost import measure_lookup
from machine import header, machine
from notify_cost import NOTIFY_CASES, measure_notify
from other_projects import OTHER_PROJECTS
from plan import Plan
from processes import MeasurementError
from push_cost import CHANNELS, measure_pushes
from push_wake_ups import measure_sealing, measure_wake_ups_beside_pushes
from report import Result, markdown, merged, table
from request_cost import measure_scenario
from scenarios import SCENARIOS
from signing_batches import measure_batches
from signing_cost import TIMES_AS_FAST, measure_signing
from signing_flood import measure_signing_flood
from sockets import measure_idle_sockets, measure_messages
from starting import measure_start
from stream_cost import measure_streams
from sweeping import measure_sweeping
from waiter_memory import measure_waiter_memory
from wake_ups import measure_burst, measure_wake_ups

Measure = Callable[[Plan], Iterable[Result]]

SECTIONS: dict[str, dict[str, Measure]] = {
    "CPU time per request at 64 connections": {
        scenario.name: partial(measure_scenario, scenario) for scenario in SCENARIOS
    },
    "A notification to 500 accounts, by the bare statement that inserts its deliveries": {
        case.name: partial(measure_notify, case) for case in NOTIFY_CASES
    },
    "Looking up 100 accounts among a million": {"lookup-100": measure_lookup},
    "All subscribers of a project that has a million": {"listing-million": measure_listing},
    "Five thousand open inboxes": {"streams": measure_streams},
    "A project beside many others": {**OTHER_PROJECTS},
    "10,000 queued pushes, by a bare client's posts": {
        channel.name: partial(measure_pushes, channel) for channel in CHANNELS
    },
    "Sealing for Web Push": {"webpush-encryption": measure_sealing},
    "Wake-ups while Web Push messages go out": {"wake-ups-beside-pushes": measure_wake_ups_beside_pushes},
    "Hashing and signing, by eth-account": {task: partial(measure_signing, task) for task in TIMES_AS_FAST},
    "Signatures a second, in batches and singly": {"rpc-batch": measure_batches},
    "Wake-ups while the wallet signs": {"wake-ups-beside-signing": measure_signing_flood},
    "From the wallet's POST to the waiting dapp's answer": {"wake-ups": measure_wake_ups},
    "A burst of answers": {"burst": measure_burst},
    "Memory of a waiting client": {"memory": measure_waiter_memory},
    "Reads in the envelope of generation 0.7, by the plain ones": {
        f"envelope-{scenario.name}": partial(measure_envelope, scenario) for scenario in ENVELOPED
    },
    "Published over WebSockets, by a bare echo": {"socket-messages": measure_messages},
    "Ten thousand idle WebSockets": {"idle-sockets": measure_idle_sockets},
    "Generation 2.x over WebSockets, by a bare echo": {"irn-messages": measure_irn},
    "Ten thousand idle WebSockets of generation 2.x": {"idle-irn-sockets": measure_idle_irn},
    "A small and a large database": {"growth": measure_growth},
    "Requests beside the sweeper": {"sweeper": measure_sweeping},
    "Start, and an idle server": {"start": measure_start},
}


def parse_options() -> argparse.Namespace:
    """What the command was given."""
    names = [name for measures in SECTIONS.values() for name in measures]
    parser = argparse.ArgumentParser(prog="scripts/bench.py", description="Measures the server.")
    parser.add_argument("--quick", action="store_true", help="fewer, shorter, smaller: a first impression")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument("--rounds", type=int, help="alternations (default 5, quick 3)")
    parser.add_argument("--runs", type=int, default=1, help="do all of it so often: least and greatest")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write tables for docs/speed.md there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--directory", type=Path, help="where the databases are made (default: temporary)")
    parser.add_argument("--built-in-client", action="store_true", help="do without wrk")
    return parser.parse_args()


def make_plan(options: argparse.Namespace, directory: Path) -> Plan:
    """The plan that the options ask for."""
    quick = options.quick
    return Plan(
        generator=choose_generator(options.built_in_client),
        directory=directory,
        rounds=max(1, options.rounds or (3 if quick else 5)),
        seconds=1 if quick else 2,
        large_sessions=10_000 if quick else 100_000,
        expired_sessions=5_000 if quick else 20_000,
        living_sessions=100_000 if quick else 1_000_000,
        crowds=(1, 1_000, 5_000, 10_000),
        probes=40 if quick else 100,
        other_projects=200 if quick else 2_000,
    )


def measure_section(measures: Iterable[tuple[str, Measure]], plan: Plan) -> Iterator[Result]:
    """The rows of a section; a measurement that fails is a row that says so."""
    for name, measure in measures:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        try:
            yield from measure(plan)
        except (MeasurementError, OSError, TimeoutError) as error:
            yield Result(name, failure=str(error) or type(error).__name__)


def run(plan: Plan, only: Sequence[str] | None, runs: int) -> Iterator[tuple[str, list[Result]]]:
    """Measure so many times, and print every section's table as soon as there is one."""
    for title, measures in SECTIONS.items():
        chosen = [(name, measure) for name, measure in measures.items() if not only or name in only]
        if chosen:
            results = merged([result for _ in range(runs) for result in measure_section(chosen, plan)])
            print(f"\n{title}\n{table(results)}", flush=True)
            yield title, results


def end_with_grace(_number: int, _frame: FrameType | None) -> None:
    """Unwind, so that every process is ended and every directory removed."""
    raise SystemExit("ended by a signal")


def main() -> None:
    signal.signal(signal.SIGTERM, end_with_grace)
    options = parse_options()
    with tempfile.TemporaryDirectory(prefix="bridge-bench-", dir=options.directory) as directory:
        plan = make_plan(options, Path(directory))
        print(header(plan.directory, plan.generator.name), flush=True)
        measured_on = machine(plan.directory, plan.generator.name)
        sections = list(run(plan, options.only, max(1, options.runs)))
    rows = [(title, result) for title, results in sections for result in results]
    if options.json:
        options.json.write_text(
            json.dumps([result.as_json(title) for title, result in rows], indent=1) + "\n"
        )
    if options.markdown:
        tables = [markdown(title, results) for title, results in sections]
        options.markdown.write_text("\n\n".join([measured_on, *tables]) + "\n")
    missed = [result.name for _, result in rows if result.verdict in ("missed", "failed")]
    print(f"\nNot reached: {', '.join(missed)}" if missed else "\nEvery target was reached.")
    if any(result.failure for _, result in rows):
        sys.exit(1)


main()
