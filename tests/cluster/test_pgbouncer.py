"""Processes that reach their database through PgBouncer."""

from pathlib import Path
from typing import Any

import pytest

from bridge_server.storage.database import DatabaseRefusedError
from tests.cluster.processes import processes_over
from tests.cluster.test_failures import SETTINGS, loaded, update, waiters_at
from tests.support.asking import ask
from tests.support.bridge_client import BridgeClient
from tests.support.postgres import needs_postgres
from tests.support.postgres_cluster import (
    keeps_prepared_statements,
    needs_kept_statements,
    needs_pgbouncer,
    open_pgbouncer,
)
from tests.support.server import running_server
from tests.support.waiting import eventually

pytestmark = [needs_postgres, needs_pgbouncer]


@pytest.mark.parametrize("mode", ["session", pytest.param("transaction", marks=needs_kept_statements)])
async def test_two_processes_work_through_a_pooler(url: str, tmp_path: Path, mode: str) -> None:
    with open_pgbouncer(url, mode) as pooled:
        async with processes_over(pooled, tmp_path, database_direct=url, **SETTINGS) as pair:
            async with loaded(*pair) as ledgers:
                for ledger in ledgers:
                    await ledger.reaches(200)

            for here, there in (pair, pair[::-1]):
                async with waiters_at(here) as sessions:
                    await update(there, sessions)
                assert (await ask(here.server, "GET", "/readyz")).body == b"ready\n"


async def test_a_pooler_that_cannot_be_used_is_refused_with_what_to_do(url: str, tmp_path: Path) -> None:
    async def refusal(**settings: Any) -> str:
        """The error of a server that does not start with these settings."""
        with pytest.raises(DatabaseRefusedError) as caught:
            async with running_server(tmp_path / "data", **settings):
                pass
        assert "\n" not in str(caught.value)
        return str(caught.value)

    with open_pgbouncer(url, "session") as pooled:
        said = await refusal(database=pooled)
    assert "is behind a pooler that refuses settings" in said
    assert "name the database server itself in `database_direct`" in said

    loses = {"max_prepared_statements": 0} if keeps_prepared_statements() else {}
    with open_pgbouncer(url, "transaction", **loses) as pooled:
        said = await refusal(database=pooled, database_direct=url)
    assert "loses prepared statements" in said
    assert "PgBouncer has to be 1.21 or later with max_prepared_statements, or to pool sessions" in said


@needs_kept_statements
async def test_a_pooler_that_swallows_listen_is_said_and_gets_no_wallet(url: str, tmp_path: Path) -> None:
    takes_settings = (
        "jit, lock_timeout, statement_timeout, idle_in_transaction_session_timeout, tcp_user_timeout, "
        "tcp_keepalives_idle, tcp_keepalives_interval, tcp_keepalives_count, synchronous_commit, "
        "default_transaction_read_only"
    )
    with open_pgbouncer(url, "transaction", ignore_startup_parameters=takes_settings) as pooled:
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
