"""What has expired does not stay: nonces and tokens."""

from pathlib import Path

from tests.support.eventually import eventually
from tests.support.inbox_client import get_nonce, sign_in
from tests.support.project import look
from tests.support.server import RunningServer, running_server


def rows(server: RunningServer) -> tuple[int, int]:
    """How many nonces there are, and how many tokens."""
    ((nonces,),) = look(server, "SELECT count(*) FROM sign_in_nonces")
    ((tokens,),) = look(server, "SELECT count(*) FROM inbox_tokens")
    return nonces, tokens


async def until_there_are(server: RunningServer, expected: tuple[int, int]) -> None:
    async def reached() -> bool:
        return rows(server) == expected

    await eventually(reached)


async def test_nonces_and_tokens_are_deleted_once_they_have_expired(tmp_path: Path) -> None:
    async with running_server(tmp_path, sweep_interval=0.02) as server:
        for _ in range(5):
            await get_nonce(server)
        await sign_in(server)
        await sign_in(server, expires_at_ms=server.clock.now_ms() + 300_000)
        server.clock.advance(301)
        await get_nonce(server)
        await until_there_are(server, (6, 1))

        server.clock.advance(300)
        await until_there_are(server, (1, 1))

        server.clock.advance(30 * 86_400)
        await until_there_are(server, (0, 0))


async def test_a_nonce_that_was_used_is_gone_at_once(server: RunningServer) -> None:
    await sign_in(server)

    assert rows(server) == (0, 1)


async def test_signing_out_leaves_nothing(server: RunningServer) -> None:
    inbox = await sign_in(server)

    await inbox.ask("POST", "/logout")

    assert rows(server) == (0, 0)
