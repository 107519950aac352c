"""Processes are killed or frozen, announcements lost, connections cut: nothing that was answered is lost."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.cluster.processes import END_LISTENERS, UNBOUNDED, ClusterProcess, processes_over
from tests.pubsub.test_v2_kills import ROOM, talk_through_kills
from tests.support.asking import METRICS_TOKEN, ask, until_waiting
from tests.support.bridge_client import BridgeClient
from tests.support.loads import Ledger, PatientLoad
from tests.support.needs import SLOW
from tests.support.postgres import needs_postgres
from tests.support.postgres_cluster import PostgresCluster
from tests.support.proxies import open_cutting_proxy
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.test_crash import losses

pytestmark = needs_postgres


SETTINGS: dict[str, Any] = {**UNBOUNDED, "metrics_token": METRICS_TOKEN, "max_wait": 120}
WAIT = {"Prefer": "wait=120"}
CLIENTS = 8
WRITES = 150 if SLOW else 100
"""So many answered writes tell that a process goes on."""
WAITERS = 100 if SLOW else 60


@asynccontextmanager
async def loaded(*processes: ClusterProcess) -> AsyncIterator[list[Ledger]]:
    """Clients write at each process until the end of the block, or until it is gone.

    At the end every process that runs has all that was answered.
    """
    ledgers = [Ledger() for _ in processes]
    async with AsyncExitStack() as stack:
        for seed, (process, ledger) in enumerate(zip(processes, ledgers, strict=True), 1):
            load = PatientLoad(process.server.client, process.url, ledger, Random(seed))
            stack.push_async_callback(_end, asyncio.create_task(load.run(CLIENTS)))
        yield ledgers
    for process in processes:
        if process.process.is_running:
            await have_lost_nothing(process, ledgers)


async def _end(writing: "asyncio.Task[None]") -> None:
    if writing.done():
        await writing
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing


async def have_lost_nothing(process: ClusterProcess, ledgers: Sequence[Ledger]) -> None:
    for ledger in ledgers:
        assert await losses(process.server.client, process.url, ledger) == []


async def are_ready(status: int, *processes: ClusterProcess) -> bool:
    answers = [await ask(each.server, "GET", "/readyz") for each in processes]
    return {each.status for each in answers} == {status}


@asynccontextmanager
async def waiters_at(process: ClusterProcess) -> AsyncIterator[list[str]]:
    """Sessions for whose payload a client waits each; by the end of the block all must have it."""
    bridge = BridgeClient(process.server)
    sessions = [await bridge.open_session() for _ in range(WAITERS)]
    polls = [asyncio.create_task(bridge.get(f"/session/{each}", WAIT)) for each in sessions]
    await until_waiting(process.server, WAITERS)
    yield sessions
    answers = await asyncio.gather(*polls)
    assert [each.json["encryptionPayload"] for each in answers] == sessions


async def update(process: ClusterProcess, sessions: Sequence[str]) -> None:
    """Write at the process what the clients wait for."""
    bridge = BridgeClient(process.server)
    answers = await asyncio.gather(*(bridge.update(each, each) for each in sessions))
    assert {answer.status for answer in answers} == {200}


@each_row("victim", [0, 1])
async def test_answered_writes_of_a_killed_process_are_at_the_other_which_goes_on(
    url: str, tmp_path: Path, victim: int
) -> None:
    async with processes_over(url, tmp_path, **SETTINGS) as pair:
        killed, other = pair[victim], pair[1 - victim]
        async with loaded(killed, other) as ledgers:
            await ledgers[0].reaches(WRITES)
            killed.process.kill()
            await ledgers[1].reaches(ledgers[1].answers + WRITES)

        killed.process.start()
        await have_lost_nothing(killed, ledgers)


async def test_a_waiting_client_is_woken_after_a_kill_of_the_writer_and_a_cut_of_what_listens(
    url: str, wire: Any, tmp_path: Path
) -> None:
    async with processes_over(url, tmp_path, **SETTINGS) as (first, second):
        async with waiters_at(first) as sessions:
            await update(second, sessions)
            second.process.kill()
        await asyncio.to_thread(second.process.start)
        async with waiters_at(first) as sessions:
            await update(second, sessions[: WAITERS // 2])
            assert await wire.fetchval(END_LISTENERS) >= 2
            await update(second, sessions[WAITERS // 2 :])


async def test_a_frozen_process_holds_nobody_up_for_long_and_goes_on_when_it_thaws(
    url: str, tmp_path: Path
) -> None:
    async with processes_over(url, tmp_path, **SETTINGS) as (frozen, other), loaded(frozen, other) as ledgers:
        await ledgers[0].reaches(WRITES)
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            await ledgers[1].reaches(ledgers[1].answers + 3 * WRITES)
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        await ledgers[0].reaches(ledgers[0].answers + WRITES)


async def test_a_process_that_cannot_announce_has_its_commits_found_by_the_others(
    url: str, tmp_path: Path
) -> None:
    async with open_cutting_proxy(url) as proxy:
        own = [{}, {"database_direct": proxy.url}]
        async with processes_over(url, tmp_path, own=own, **SETTINGS) as (first, second):
            async with waiters_at(first) as sessions:
                proxy.is_refusing = True
                proxy.cut_all()
                await update(second, sessions)

            proxy.is_refusing = False
            await eventually(lambda: are_ready(200, second))
            async with waiters_at(second) as sessions:
                await update(first, sessions)


async def test_a_database_that_crashes_and_returns_has_what_both_processes_answered(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    async with processes_over(cluster.url(), tmp_path, **SETTINGS) as pair:
        async with loaded(*pair) as ledgers:

            async def go_on() -> None:
                for ledger in ledgers:
                    await ledger.reaches(ledger.answers + 100)

            for mode in ("immediate", "fast"):
                await go_on()
                await asyncio.to_thread(cluster.stop, mode)
                await eventually(lambda: are_ready(503, *pair))
                await asyncio.to_thread(cluster.start)
                await eventually(lambda: are_ready(200, *pair))
            await go_on()

        async with waiters_at(pair[0]) as sessions:
            await update(pair[1], sessions)


@pytest.mark.timeout(900)  # so many processes are started
async def test_no_answered_message_is_missing_after_kills_and_none_comes_again(
    url: str, tmp_path: Path
) -> None:
    async with processes_over(url, tmp_path, **ROOM) as pair:
        servers = [each.process for each in pair]
        await talk_through_kills(servers, Random(11), 20 if SLOW else 2, least=30, most=150)
