"""Wallets that ask for their calls and do not read them: what is in memory for them is bounded."""

from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from yarl import URL

from tests.support.asking import ask
from tests.support.eventually import eventually
from tests.support.figures import METRICS_TOKEN, figure
from tests.support.idle_clients import ANOTHER, SOMEBODY, client, everything_from, get
from tests.support.server import RunningServer, running_server

CALLS, CALL_BYTES = 25, 60_000
LIST_BYTES = CALLS * CALL_BYTES
MOST_OF_AN_ADDRESS_BYTES = 3 * LIST_BYTES
WINDOW_BYTES = 70_000


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server that knows clients on this machine by their addresses, but for 127.0.0.1."""
    async with running_server(
        tmp_path / "data", metrics_token=METRICS_TOKEN, quota_exempt="127.0.0.1/32",
        max_address_unread_bytes=MOST_OF_AN_ADDRESS_BYTES, unread_timeout=3,
    ) as server:  # fmt: skip
        yield server


async def session_with_calls(server: RunningServer) -> str:
    session_id = await server.open_session()
    for _ in range(CALLS):
        await server.request_call(session_id, "x" * CALL_BYTES)
    return session_id


async def until(server: RunningServer, name: str, count: float) -> None:
    async def reached() -> bool:
        return await figure(server, name) == count

    await eventually(reached)


@pytest.mark.sqlite("answers are shared by the read cache")
@pytest.mark.parametrize(
    "path", ["/session/{}/calls", "/session/{}/calls?wait=20", "/compat/v0.7/session/{}/calls"]
)
async def test_a_list_that_many_do_not_read_is_in_memory_once(server: RunningServer, path: str) -> None:
    asking = get(path.format(await session_with_calls(server)))
    port = URL(server.url).port or 0
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(client(port, SOMEBODY, asking))
        await until(server, "unread_connections", 30)

        assert LIST_BYTES < await figure(server, "unread_bytes") < LIST_BYTES + 30 * WINDOW_BYTES
        assert await figure(server, "connections_cut_total") == 0
        await until(server, "connections_cut_total", 30)  # they have taken nothing for too long
        assert await figure(server, "unread_bytes") == 0


async def test_many_unread_lists_are_bounded_and_another_address_is_served(server: RunningServer) -> None:
    port = URL(server.url).port or 0
    session_ids = [await session_with_calls(server) for _ in range(6)]
    with ExitStack() as stack:
        for session_id in session_ids:
            stack.enter_context(client(port, SOMEBODY, get(f"/session/{session_id}/calls")))
        await until(server, "connections_cut_total", 4)

        assert await figure(server, "unread_bytes") <= MOST_OF_AN_ADDRESS_BYTES
        path = f"/session/{session_ids[0]}/calls"
        with client(port, ANOTHER, get(path, "Connection: close"), small=False) as newcomer:
            assert (await everything_from(newcomer)).endswith((await ask(server, "GET", path)).body)
