"""What a token is worth, and for how long."""

from pathlib import Path

import pytest

from tests.support.asking import ask
from tests.support.inbox_client import (
    InboxClient,
    get_nonce,
    log_in,
    post_login,
    sign_in,
)
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.wallet import Wallet

MINUTE_MS = 60_000
TOKEN_SECONDS = 30 * 86_400
WALLET = Wallet(1)


async def is_signed_in(server: RunningServer, token: str) -> bool:
    answer = await ask(server, "GET", "/inbox/devices", headers={"Authorization": f"Bearer {token}"})
    assert answer.status in (200, 401)
    return answer.status == 200


async def test_a_token_expires(server: RunningServer, inbox: InboxClient) -> None:
    server.clock.advance(TOKEN_SECONDS - 0.001)
    before = await is_signed_in(server, inbox.token)
    server.clock.advance(0.001)

    assert before
    assert not await is_signed_in(server, inbox.token)


@pytest.mark.own_server
async def test_a_token_lasts_no_longer_than_its_message(server: RunningServer) -> None:
    answer = await log_in(server, WALLET, expires_at_ms=server.clock.now_ms() + MINUTE_MS)

    assert answer.json["expires_at"] == "2027-01-15T08:01:00.000Z"
    assert await is_signed_in(server, answer.json["token"])
    server.clock.advance(60)
    assert not await is_signed_in(server, answer.json["token"])


async def test_logging_out_ends_this_token_and_no_other(server: RunningServer) -> None:
    one, other = await sign_in(server), await sign_in(server)

    assert (await one.ask("POST", "/logout")).json == {"success": True}

    assert not await is_signed_in(server, one.token)
    assert await is_signed_in(server, other.token)
    (await one.ask("POST", "/logout")).problem(401)


@each_row("token", ["", "nonsense", "é", "a" * 43])
async def test_other_tokens_open_nothing(server: RunningServer, token: str) -> None:
    answer = await ask(server, "GET", "/inbox/devices", headers={"Authorization": f"Bearer {token}"})

    assert answer.problem(401)["type"] == "urn:bridge-server:problem:not-authenticated"


async def test_tokens_and_nonces_survive_a_restart(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        inbox, nonce, clock = await sign_in(server), await get_nonce(server), server.clock

    async with running_server(tmp_path, clock) as server:
        assert await is_signed_in(server, inbox.token)
        assert (await log_in(server, WALLET, nonce=nonce)).status == 200


async def test_signing_in_is_limited_by_address(tmp_path: Path) -> None:
    async with running_server(tmp_path, quota_exempt=()) as server:
        statuses = [(await ask(server, "POST", "/inbox/nonce")).status for _ in range(30)]
        refused = await ask(server, "POST", "/inbox/nonce")

        assert statuses == [200] * 30
        refused.problem(429)
        assert refused.headers["Retry-After"] == "2"
        (await post_login(server, "", "")).problem(429)
