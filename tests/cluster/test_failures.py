"""Processes are killed or frozen, rings are lost, connections end: nothing that was answered is lost."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from tests.cluster.processes import END_EARS, UNBOUNDED, ClusterProcess, cluster_url, processes_over
from tests.pubsub.test_v2_kills import TOPICS, Receiver, confirmed_by, joined, publish
from tests.support.asking import METRICS_TOKEN, ask, until_waiting
from tests.support.bridge_client import BridgeClient
from tests.support.loads import Ledger, PatientLoad
from tests.support.needs import SLOW
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.postgres_cluster import PostgresCluster
from tests.support.proxies import open_cutting_proxy
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.test_crash import Inspection

pytestmark = needs_postgres


# Processes are killed or frozen, rings are lost, connections end: nothing that was answered is lost.

SETTINGS: dict[str, Any] = {**UNBOUNDED, "metrics_token": METRICS_TOKEN, "max_wait": 120}
WAIT = {"Prefer": "wait=120"}
CLIENTS = 8
WRITES = 150 if SLOW else 100
"""So many answered writes tell that a process goes on."""

WAITERS = 100 if SLOW else 60


@asynccontextmanager
async def loaded(process: ClusterProcess, ledger: Ledger, seed: int = 1) -> AsyncIterator[None]:
    """Clients write at the process until the end of the block, or until it is gone."""
    load = PatientLoad(process.server.client, process.url, ledger, Random(seed))
    writing = asyncio.create_task(load.run(CLIENTS))
    try:
        yield
        if writing.done():
            await writing
    finally:
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing


async def losses_at(process: ClusterProcess, ledger: Ledger) -> list[str]:
    return await Inspection(process.server.client, process.url, ledger).find_losses()


async def status_of(process: ClusterProcess, path: str) -> int:
    return (await ask(process.server, "GET", path)).status


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


@each_row("victim", [0, 1])
async def test_answered_writes_of_a_killed_process_are_at_the_other_which_goes_on(
    url: str, tmp_path: Path, victim: int
) -> None:
    ledgers = Ledger(), Ledger()
    async with processes_over(url, tmp_path, **SETTINGS) as pair:
        killed, other = pair[victim], pair[1 - victim]
        async with loaded(killed, ledgers[0]), loaded(other, ledgers[1], seed=2):
            await ledgers[0].reaches(WRITES)
            killed.process.kill()
            await ledgers[1].reaches(ledgers[1].answers + WRITES)

        assert [await losses_at(other, each) for each in ledgers] == [[], []]
        killed.process.start()
        assert [await losses_at(killed, each) for each in ledgers] == [[], []]


async def test_a_waiting_client_is_woken_by_the_last_write_of_a_killed_process(
    url: str, tmp_path: Path
) -> None:
    async with processes_over(url, tmp_path, **SETTINGS) as (first, second):
        wallet = BridgeClient(second.server)
        async with waiters_at(first) as sessions:
            answers = await asyncio.gather(*(wallet.update(each, each) for each in sessions))
            second.process.kill()
            assert {answer.status for answer in answers} == {200}


async def test_a_frozen_process_holds_nobody_up_for_long_and_goes_on_when_it_thaws(
    url: str, tmp_path: Path
) -> None:
    ledgers = Ledger(), Ledger()
    async with processes_over(url, tmp_path, **SETTINGS) as (frozen, other):
        async with loaded(frozen, ledgers[0]), loaded(other, ledgers[1], seed=2):
            await ledgers[0].reaches(WRITES)
            os.kill(frozen.pid, signal.SIGSTOP)
            try:
                await ledgers[1].reaches(ledgers[1].answers + 3 * WRITES)
            finally:
                os.kill(frozen.pid, signal.SIGCONT)
            await ledgers[0].reaches(ledgers[0].answers + WRITES)

        for process in (frozen, other):
            assert [await losses_at(process, each) for each in ledgers] == [[], []]


async def test_a_process_that_cannot_ring_has_its_commits_found_by_the_others(
    url: str, tmp_path: Path
) -> None:
    async with open_cutting_proxy(url) as proxy:
        own = [{}, {"database_direct": proxy.url}]
        async with processes_over(url, tmp_path, own=own, **SETTINGS) as (first, second):
            wallet = BridgeClient(second.server)
            async with waiters_at(first) as sessions:
                proxy.is_refusing = True
                proxy.cut_all()
                await asyncio.gather(*(wallet.update(each, each) for each in sessions))

            proxy.is_refusing = False

            async def is_ready() -> bool:
                return await status_of(second, "/readyz") == 200

            await eventually(is_ready)
            async with waiters_at(second) as sessions:
                dapp = BridgeClient(first.server)
                await asyncio.gather(*(dapp.update(each, each) for each in sessions))


async def test_a_waiting_client_is_woken_when_the_connections_that_listen_are_cut(
    url: str, tmp_path: Path
) -> None:
    async with processes_over(url, tmp_path, **SETTINGS) as (first, second):
        wallet = BridgeClient(second.server)
        async with waiters_at(first) as sessions, connected(url) as connection:
            halves = sessions[: WAITERS // 2], sessions[WAITERS // 2 :]
            await asyncio.gather(*(wallet.update(each, each) for each in halves[0]))
            assert await connection.fetchval(END_EARS) >= 2
            await asyncio.gather(*(wallet.update(each, each) for each in halves[1]))


async def test_a_database_that_crashes_and_returns_has_what_both_processes_answered(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    ledgers = Ledger(), Ledger()
    async with processes_over(cluster.url(), tmp_path, **SETTINGS) as pair:

        async def are(status: int) -> bool:
            return [await status_of(each, "/readyz") for each in pair] == [status, status]

        async with loaded(pair[0], ledgers[0]), loaded(pair[1], ledgers[1], seed=2):
            for mode in ("immediate", "fast"):
                for ledger in ledgers:
                    await ledger.reaches(ledger.answers + 100)
                await asyncio.to_thread(cluster.stop, mode)
                await eventually(lambda: are(503))
                await asyncio.to_thread(cluster.start)
                await eventually(lambda: are(200))
            for ledger in ledgers:
                await ledger.reaches(ledger.answers + 100)

        for process in pair:
            assert [await losses_at(process, each) for each in ledgers] == [[], []]
        async with waiters_at(pair[0]) as sessions:
            wallet = BridgeClient(pair[1].server)
            await asyncio.gather(*(wallet.update(each, each) for each in sessions))


# Kills of two processes in the middle of messages to many clients, which come and go at both.

_KILLS = 20 if SLOW else 2
_RECEIVERS = 12
_ROOM: dict[str, Any] = {
    "max_topic_messages": 100_000,
    "max_topic_bytes": 100_000_000,
    "max_address_messages": 1_000_000,
    "max_client_messages": 1_000_000,
}


@pytest.mark.timeout(900)  # so many processes are started
async def test_no_answered_message_is_missing_and_none_comes_again(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    chance, numbers = Random(11), count()
    receivers, answered = [Receiver() for _ in range(_RECEIVERS)], list[str]()
    url = await cluster_url(postgres, "fan_out")
    async with (
        processes_over(url, tmp_path, **_ROOM) as pair,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session,
    ):
        for receiver in receivers:
            async with joined(session, pair[0].url, receiver.identity) as socket:
                await socket.subscribe(*TOPICS)
        for number in range(_KILLS):
            goal, sure = len(answered) + chance.randint(30, 150), confirmed_by(receivers) + 60
            async with AsyncExitStack() as stack:
                work = []
                for place, receiver in enumerate(chance.sample(receivers, _RECEIVERS * 3 // 4)):
                    joining = joined(session, pair[place % 2].url, receiver.identity)
                    socket = await stack.enter_async_context(joining)
                    work.append(asyncio.create_task(receiver.listen(socket, chance)))
                for process in pair:
                    socket = await stack.enter_async_context(
                        joined(session, process.url, Receiver().identity)
                    )
                    work.append(asyncio.create_task(publish(socket, numbers, answered)))
                while (len(answered) < goal or confirmed_by(receivers) < sure) and not any(
                    task.done() for task in work
                ):
                    await asyncio.wait(work, timeout=0.02, return_when=asyncio.FIRST_COMPLETED)
                pair[number % 2].process.kill()
                for task in work:
                    task.cancel()
                await asyncio.wait(work)
            await asyncio.to_thread(pair[number % 2].process.start)
        for place, receiver in enumerate(receivers):
            async with joined(session, pair[place % 2].url, receiver.identity) as socket:
                await receiver.take_the_rest(socket)

    assert len(answered) >= 30 * _KILLS
    assert [set(answered) - receiver.received for receiver in receivers] == [set()] * _RECEIVERS
    assert [receiver.repeated for receiver in receivers] == [[]] * _RECEIVERS
    assert confirmed_by(receivers) >= 60 * _KILLS
