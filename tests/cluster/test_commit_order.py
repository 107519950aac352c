"""Messages whose order of numbers is not the order of their commits, at two processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.cluster.processes import ClusterProcess, database_of
from tests.support.eventually import eventually
from tests.support.irn_client import Identity, irn_connected, topic_of
from tests.support.postgres import needs_postgres
from tests.support.socket_client import connected

pytestmark = needs_postgres

SLOW, QUICK = topic_of("slow"), topic_of("quick")
NUMBERS = "SELECT text, number FROM topic_messages UNION ALL SELECT data, number FROM irn_messages"
WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()
"""
HOLD = """
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;
CREATE TRIGGER hold BEFORE INSERT ON topic_messages
    FOR EACH ROW WHEN (NEW.topic = '{topic}') EXECUTE FUNCTION hold();
CREATE TRIGGER hold BEFORE INSERT ON irn_messages
    FOR EACH ROW WHEN (NEW.topic = '{topic}') EXECUTE FUNCTION hold();
SELECT pg_advisory_lock(1);
"""
RELEASE = "SELECT pg_advisory_unlock(1)"
END = "DROP FUNCTION hold CASCADE"


class Held:
    """Transactions that insert a message of the slow topic wait, after it has its number."""

    def __init__(self, wire: Any) -> None:
        self._wire = wire

    async def wait(self, transactions: int) -> None:
        """Return once so many transactions wait, for this or for another's turn."""

        async def wait() -> bool:
            return bool(await self._wire.fetchval(WAITING) == transactions)

        await eventually(wait)

    async def release(self) -> None:
        """Let them go on."""
        await self._wire.execute(RELEASE)

    async def number(self, text: str) -> int:
        """The number of the message with this text."""
        rows = await self._wire.fetch(NUMBERS)
        (number,) = [number for data, number in rows if text.encode() in data]
        return int(number)


@pytest.fixture
async def held(pair: tuple[ClusterProcess, ClusterProcess]) -> AsyncIterator[Held]:
    async with _holding(pair[0]) as held:
        yield held


@asynccontextmanager
async def _holding(process: ClusterProcess) -> AsyncIterator[Held]:
    async with database_of(process) as wire:
        await wire.execute(HOLD.format(topic=SLOW))
        try:
            yield Held(wire)
        finally:
            await wire.execute(RELEASE)
            await wire.execute(END)


async def test_generation_1_skips_no_message_that_is_committed_after_one_with_a_greater_number(
    pair: tuple[ClusterProcess, ClusterProcess], held: Held
) -> None:
    one, two = pair
    async with (
        connected(one.server.client, one.url) as slow,
        connected(two.server.client, two.url) as quick,
        connected(two.server.client, two.url) as wallet,
    ):
        await wallet.subscribe(SLOW, QUICK)

        await slow.say(SLOW, "pub", "1.x lower")
        await held.wait(1)
        await quick.publish(QUICK, "1.x greater")
        assert (await wallet.message())["payload"] == "1.x greater"
        await quick.say(SLOW, "pub", "1.x last")
        await held.wait(2)
        await held.release()

        assert await wallet.payloads(2) == ["1.x lower", "1.x last"]
        assert await held.number("1.x lower") < await held.number("1.x greater")
        assert await held.number("1.x greater") < await held.number("1.x last")


async def test_generation_2_skips_no_message_that_is_committed_after_one_with_a_greater_number(
    pair: tuple[ClusterProcess, ClusterProcess], held: Held
) -> None:
    one, two = pair
    session, dapp, wallet_identity = two.server.client, Identity(), Identity()

    def token(identity: Identity) -> str:
        return identity.token(iat=one.server.clock.now_ms() // 1_000, exp=None)

    async with (
        irn_connected(session, one.url, dapp, token=token(dapp)) as slow,
        irn_connected(session, two.url, other := Identity(), token=token(other)) as quick,
        irn_connected(session, two.url, wallet_identity, token=token(wallet_identity)) as wallet,
    ):
        await wallet.subscribe(SLOW, QUICK)

        lower = asyncio.create_task(slow.publish(SLOW, "2.x lower"))
        await held.wait(1)
        await quick.publish(QUICK, "2.x greater")
        assert await wallet.message() == "2.x greater"
        last = asyncio.create_task(quick.publish(SLOW, "2.x last"))
        await held.wait(2)
        await held.release()

        assert await asyncio.gather(lower, last) == [True, True]
        assert await wallet.messages(2) == ["2.x lower", "2.x last"]
        assert await held.number("2.x lower") < await held.number("2.x greater")
        assert await held.number("2.x greater") < await held.number("2.x last")
