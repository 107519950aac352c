"""Messages whose order of numbers is not the order of their commits, at two processes."""

import asyncio

from tests.cluster.held_inserts import HELD, held_inserts
from tests.cluster.irn_sockets import irn_socket
from tests.cluster.processes import ClusterProcess
from tests.support.irn_client import topic_of
from tests.support.postgres import needs_postgres
from tests.support.socket_client import connected

pytestmark = needs_postgres

TOPIC = topic_of("topic")


async def test_messages_of_one_topic_have_numbers_in_the_order_of_their_commits(
    pair: tuple[ClusterProcess, ClusterProcess],
) -> None:
    one, two = pair
    async with (
        held_inserts(one) as held,
        connected(one.server.client, one.url) as slow,
        connected(two.server.client, two.url) as quick,
        connected(two.server.client, two.url) as wallet,
    ):
        await wallet.subscribe(TOPIC)

        await slow.say(TOPIC, "pub", HELD)
        await held.wait(1)
        await quick.say(TOPIC, "pub", "next")
        await held.wait(2)
        await held.release()

        assert await wallet.payloads(2) == [HELD, "next"]
        first, second = await held.numbers("topic_messages", HELD, "next")
        assert first < second


async def test_messages_of_one_topic_of_generation_2_have_numbers_in_the_order_of_their_commits(
    pair: tuple[ClusterProcess, ClusterProcess],
) -> None:
    one, two = pair
    async with (
        held_inserts(one) as held,
        irn_socket(one) as slow,
        irn_socket(two) as quick,
        irn_socket(two) as wallet,
    ):
        await wallet.subscribe(TOPIC)

        publishing = [asyncio.create_task(slow.publish(TOPIC, HELD))]
        await held.wait(1)
        publishing.append(asyncio.create_task(quick.publish(TOPIC, "next")))
        await held.wait(2)
        await held.release()

        assert await asyncio.gather(*publishing) == [True, True]
        assert await wallet.messages(2) == [HELD, "next"]
        first, second = await held.numbers("irn_messages", HELD, "next")
        assert first < second
