"""The clock on the wall is set back while messages are under way: none is lost, none comes without end."""

from pathlib import Path

import aiohttp

from tests.support.clock import ManualClock
from tests.support.irn_client import TOKEN_TIME, Identity, irn_connected, topic_of
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

TOPIC = topic_of("topic")
BACK_SECONDS = [1, 600, 40 * 86_400]
"""Less and more than a call is remembered, and more than a subscription lasts."""


def token(identity: Identity, back_seconds: int) -> str:
    """A token of a client whose own clock was set back, too."""
    issued_at = TOKEN_TIME - back_seconds
    return identity.token(iat=issued_at, exp=issued_at + 86_400)


@each_row("back_seconds", BACK_SECONDS)
async def test_both_there_hear_everything_once(tmp_path: Path, back_seconds: int) -> None:
    async with running_server(tmp_path) as server, aiohttp.ClientSession() as session:
        dapp_identity, wallet_identity = Identity(), Identity()
        async with (
            irn_connected(session, server.url, dapp_identity) as dapp,
            irn_connected(session, server.url, wallet_identity) as wallet,
        ):
            await wallet.subscribe(TOPIC)
            await dapp.publish(TOPIC, "before", request_id=1)
            server.clock.set_by(-back_seconds)
            await dapp.publish(TOPIC, "after", request_id=2)
            for request_id, message in ((1, "before"), (2, "after")):  # a client repeats what it gave up
                assert await dapp.publish(TOPIC, message, request_id=request_id) is True

            assert await wallet.messages(2) == ["before", "after"]
            await wallet.settled()

        again = token(wallet_identity, back_seconds)
        async with irn_connected(session, server.url, wallet_identity, token=again) as wallet:
            await wallet.subscribe(TOPIC)
            await wallet.nothing()


@each_row("back_seconds", BACK_SECONDS)
async def test_a_wallet_that_was_away_hears_everything_once_across_a_restart(
    tmp_path: Path, back_seconds: int
) -> None:
    clock = ManualClock()
    dapp_identity, wallet_identity = Identity(), Identity()
    async with aiohttp.ClientSession() as session:
        async with running_server(tmp_path, clock) as server:
            await _subscribe_and_leave(session, server, wallet_identity)
            async with irn_connected(session, server.url, dapp_identity) as dapp:
                await dapp.publish(TOPIC, "before", request_id=1)
                clock.set_by(-back_seconds)
                await dapp.publish(TOPIC, "after", request_id=2)

        async with running_server(tmp_path, clock) as server:
            its_token = token(dapp_identity, back_seconds)
            async with irn_connected(session, server.url, dapp_identity, token=its_token) as dapp:
                assert await dapp.publish(TOPIC, "before", request_id=1) is True
                assert await dapp.publish(TOPIC, "after", request_id=2) is True
            for expected in (["before", "after"], []):
                its_token = token(wallet_identity, back_seconds)
                async with irn_connected(session, server.url, wallet_identity, token=its_token) as wallet:
                    await wallet.subscribe(TOPIC)
                    assert await wallet.messages(len(expected)) == expected
                    await wallet.settled()


async def test_an_unacknowledged_message_comes_again_and_ends_with_its_acknowledgement(
    tmp_path: Path,
) -> None:
    identity = Identity()
    async with running_server(tmp_path) as server, aiohttp.ClientSession() as session:
        async with (
            irn_connected(session, server.url, Identity()) as dapp,
            irn_connected(session, server.url, identity) as wallet,
        ):
            await wallet.subscribe(TOPIC)
            await dapp.publish(TOPIC, "message")
            assert await wallet.messages(1, acknowledge=False) == ["message"]
            server.clock.set_by(-600)

        for acknowledge, expected in ((False, 1), (True, 1), (True, 0)):
            async with irn_connected(session, server.url, identity, token=token(identity, 600)) as wallet:
                await wallet.subscribe(TOPIC)
                await wallet.messages(expected, acknowledge=acknowledge)
                await wallet.settled()


async def test_a_call_is_not_remembered_without_end(tmp_path: Path) -> None:
    """A publication with a known id counts again once its five minutes are over, by the new time."""
    async with (
        running_server(tmp_path) as server,
        aiohttp.ClientSession() as session,
        irn_connected(session, server.url, Identity()) as dapp,
        irn_connected(session, server.url, Identity()) as wallet,
    ):
        await wallet.subscribe(TOPIC)
        server.clock.set_by(-600)
        await dapp.publish(TOPIC, "message", request_id=1)
        assert await wallet.messages(1) == ["message"]  # or it might expire first
        server.clock.set_by(301)
        await dapp.publish(TOPIC, "message", request_id=1)

        assert await wallet.messages(1) == ["message"]


async def _subscribe_and_leave(
    session: aiohttp.ClientSession, server: RunningServer, identity: Identity
) -> None:
    async with irn_connected(session, server.url, identity) as wallet:
        await wallet.subscribe(TOPIC)
