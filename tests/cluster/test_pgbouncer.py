"""Processes that reach their database through PgBouncer."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bridge_server.storage.database import DatabaseRefusedError
from tests.cluster.processes import UNBOUNDED, ClusterProcess, processes_over
from tests.support.asking import METRICS_TOKEN, ask, until_waiting
from tests.support.bridge_client import BridgeClient
from tests.support.loads import Ledger, PatientLoad
from tests.support.postgres import needs_postgres
from tests.support.postgres_cluster import (
    keeps_prepared_statements,
    needs_kept_statements,
    needs_pgbouncer,
    open_pgbouncer,
)
from tests.support.server import running_server
from tests.support.waiting import eventually
from tests.test_crash import Inspection

pytestmark = [needs_postgres, needs_pgbouncer]

SETTINGS: dict[str, Any] = {**UNBOUNDED, "metrics_token": METRICS_TOKEN}
MODES = ["session", pytest.param("transaction", marks=needs_kept_statements)]
TAKES_SETTINGS = {
    "ignore_startup_parameters": "jit, lock_timeout, statement_timeout, idle_in_transaction_session_timeout, "
    "tcp_user_timeout, tcp_keepalives_idle, tcp_keepalives_interval, tcp_keepalives_count, "
    "synchronous_commit, default_transaction_read_only"
}


async def wait_across(pair: Sequence[ClusterProcess]) -> None:
    """A dapp waits at each process for what its wallet says at the other."""
    for here, there in (pair, pair[::-1]):
        dapp, wallet = BridgeClient(here.server), BridgeClient(there.server)
        sessions = [await dapp.open_session() for _ in range(20)]
        polls = [
            asyncio.create_task(dapp.get(f"/session/{each}", {"Prefer": "wait=20"})) for each in sessions
        ]
        await until_waiting(here.server, len(sessions))
        await asyncio.gather(*(wallet.update(each, each) for each in sessions))
        answers = await asyncio.gather(*polls)
        assert [each.json["encryptionPayload"] for each in answers] == sessions


@pytest.mark.parametrize("mode", MODES)
async def test_two_processes_work_through_a_pooler(url: str, tmp_path: Path, mode: str) -> None:
    with open_pgbouncer(url, mode) as pooled:
        settings = {**SETTINGS, "database_direct": url}
        async with processes_over(pooled, tmp_path, **settings) as pair:
            ledgers = [Ledger() for _ in pair]
            loads = [
                asyncio.create_task(PatientLoad(each.server.client, each.url, ledger, Random(1)).run(8))
                for each, ledger in zip(pair, ledgers, strict=True)
            ]
            for ledger in ledgers:
                await ledger.reaches(200)
            for load in loads:
                load.cancel()
            await asyncio.gather(*loads, return_exceptions=True)

            await wait_across(pair)
            for process in pair:
                for ledger in ledgers:
                    inspection = Inspection(process.server.client, process.url, ledger)
                    assert await inspection.find_losses() == []
                assert (await ask(process.server, "GET", "/readyz")).body == b"ready\n"


async def refusal_of(tmp_path: Path, **settings: Any) -> str:
    """The error of a server that does not start with these settings."""
    with pytest.raises(DatabaseRefusedError) as caught:
        async with running_server(tmp_path / "data", **settings):
            pass
    said = str(caught.value)
    assert "\n" not in said
    return said


async def test_a_pooler_without_the_database_beside_it_refuses_the_settings_of_a_connection(
    url: str, tmp_path: Path
) -> None:
    with open_pgbouncer(url, "session") as pooled:
        said = await refusal_of(tmp_path, database=pooled)

    assert "is behind a pooler that refuses settings" in said
    assert "name the database server itself in `database_direct`" in said


async def test_a_pooler_of_transactions_that_loses_prepared_statements_is_refused(
    url: str, tmp_path: Path
) -> None:
    loses = {"max_prepared_statements": 0} if keeps_prepared_statements() else {}
    with open_pgbouncer(url, "transaction", **loses) as pooled:
        said = await refusal_of(tmp_path, database=pooled, database_direct=url)

    assert "loses prepared statements" in said
    assert "PgBouncer has to be 1.21 or later with max_prepared_statements, or to pool sessions" in said


@needs_kept_statements
async def test_a_pooler_that_swallows_listen_is_said_and_gets_no_wallet(url: str, tmp_path: Path) -> None:
    with open_pgbouncer(url, "transaction", **TAKES_SETTINGS) as pooled:
        settings: dict[str, Any] = {"database": pooled, "database_direct": pooled, "dev_accounts": True}
        async with running_server(tmp_path / "data", **settings) as server:
            bridge = BridgeClient(server)
            assert (await bridge.update(await bridge.open_session(), "sealed")).status == 200

            async def is_said() -> bool:
                answer = await ask(server, "GET", "/readyz")
                return answer.status == 200 and b"but LISTEN has no effect" in answer.body

            await eventually(is_said)
            answer = await ask(server, "GET", "/readyz")
            assert b"name the database server itself in `database_direct`" in answer.body
            called = {"jsonrpc": "2.0", "id": 1, "method": "eth_accounts", "params": []}
            refused = (await bridge.send("POST", "/rpc", called)).json["error"]
            assert "No process holds the wallet" in refused["message"]
