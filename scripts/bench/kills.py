"""Two `serve` processes on one PostgreSQL database: what was answered is there after kills under load.

Of every kind of writes: sessions, their payloads, calls and statuses; notifications; publications and
subscriptions of generation 2.x; notices to webhooks, which have to arrive.
"""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from cluster import cancelled, processes_of, with_cluster
from plan import Plan
from report import Row, row

_CLIENTS = 8
_PROJECTS, _ACCOUNTS = 3, 20
_ADMIN_TOKEN = "the token of the operator"
_SETTINGS: dict[str, Any] = {
    "admin_token": _ADMIN_TOKEN,
    "quota_exempt": '["127.0.0.1/32"]',
    "account_burst": 1_000_000,
    "max_pending_calls": 1_000_000,
    "allow_private_webhooks": True,
    "webhook_timeout": 1,
    "push_timeout": 1,
}


def measure_cluster_kills(plan: Plan) -> Iterator[Row]:
    """Answered writes that are lost when processes and the database are killed."""
    yield from with_cluster(plan, _kills)


async def _kills(plan: Plan, folder: Path, cluster: Any) -> list[Row]:
    """Kill either process, and the database, under load again and again; then read all that was answered."""
    from kill_loads import Notifications, Publications, Webhooks  # noqa: PLC0415 - it needs the tests' path

    from tests.support.loads import Ledger  # noqa: PLC0415
    from tests.support.webhook_receiver import open_receiver  # noqa: PLC0415

    chance, ledgers = Random(1), (Ledger(), Ledger())
    processes, databases = plan.sized(10, 50), plan.sized(2, 10)
    kills = ["process"] * processes + ["database"] * databases
    chance.shuffle(kills)
    async with (
        open_receiver() as receiver,
        processes_of(cluster.url(), folder, **_SETTINGS) as pair,
    ):
        others = (
            Notifications(cluster.url(), *await _projects(pair[0])),
            Publications(cluster.url()),
            Webhooks(receiver),
        )
        for number, kill in enumerate(kills):
            await _killed(kill, number % 2, pair, ledgers, others, chance, cluster)
        lost = await _losses(pair, ledgers, others)
    figures = {
        "process_kills": float(processes),
        "database_kills": float(databases),
        "sessions_and_calls": float(sum(ledger.answers for ledger in ledgers)),
        **{each.kind: float(each.answers) for each in others},
        "lost": float(len(lost)),
    }
    return [row("killed under load", figures)]


async def _projects(process: Any) -> tuple[list[tuple[str, str]], list[str]]:
    """The secrets of some projects by their ids, and the accounts that are subscribed to all of them."""
    from tests.support.admin_client import AdminClient  # noqa: PLC0415 - not a script's path
    from tests.support.project import NEWS, accounts  # noqa: PLC0415

    admin, everybody, secrets = AdminClient(process.server), accounts(_ACCOUNTS), []
    for number in range(_PROJECTS):
        project = f"killed-{number}"
        secrets.append((project, await admin.create(project, NEWS)))
        for each in everybody:
            await admin.subscribe(project, each)
    return secrets, everybody


async def _killed(
    kill: str,
    victim: int,
    pair: list[Any],
    ledgers: tuple[Any, Any],
    others: Sequence[Any],
    chance: Random,
    cluster: Any,
) -> None:
    from tests.support.loads import PatientLoad  # noqa: PLC0415 - not a script's path

    loads = [
        asyncio.create_task(PatientLoad(each.server.client, each.url, ledger, chance).run(_CLIENTS))
        for each, ledger in zip(pair, ledgers, strict=True)
    ]
    loads += [asyncio.create_task(other.run(each)) for other in others for each in pair]
    goal = ledgers[victim].answers + chance.randint(20, 400)
    async with asyncio.timeout(60):
        await ledgers[victim].reaches(goal)
    if kill == "process":
        pair[victim].process.kill()
        await cancelled(loads)
        await asyncio.to_thread(pair[victim].process.start)
        return
    await asyncio.to_thread(cluster.stop, "immediate")
    await asyncio.to_thread(cluster.start)
    async with asyncio.timeout(60):
        await ledgers[victim].reaches(ledgers[victim].answers + 20)
    await cancelled(loads)


async def _losses(pair: list[Any], ledgers: tuple[Any, Any], others: Sequence[Any]) -> list[str]:
    """Sessions and calls are read at both processes: neither may answer less than the other."""
    from tests.test_crash import losses  # noqa: PLC0415 - not a script's path

    lost = []
    for process in pair:
        for ledger in ledgers:
            lost += await losses(process.server.client, process.url, ledger)
    for other in others:
        lost += await other.losses(pair[0])
    for line in lost[:20]:
        print(line)
    return lost
