"""A socket that is sent messages from the disk, while it subscribes to more topics."""

from pathlib import Path

from tests.support.irn_client import Identity, IrnClient, irn_connected, topic_of
from tests.support.server import running_server

NEW = topic_of("new")
OTHERS = [topic_of(name) for name in "abc"]
WINDOW = 4
"""Messages that a socket is sent before it acknowledges any: twice what may wait on a topic."""


async def test_a_topic_is_sent_from_its_oldest_message_on_while_others_are_caught_up_with(
    tmp_path: Path,
) -> None:
    identity = Identity()
    async with running_server(tmp_path, max_topic_messages=WINDOW // 2) as server:
        async with irn_connected(server.client, server.url, identity) as wallet:
            await wallet.subscribe(*OTHERS)
        async with irn_connected(server.client, server.url, Identity()) as dapp:
            await dapp.publish(NEW, "older")
            for topic in OTHERS:
                await dapp.publish(topic, "one")
                await dapp.publish(topic, "two")
            await dapp.publish(NEW, "newer")

        async with irn_connected(server.client, server.url, identity) as wallet:
            await wallet.subscribe(*OTHERS)
            first = [await wallet.request() for _ in range(WINDOW)]
            await wallet.subscribe(NEW)
            for request in first:
                await wallet.acknowledge(request)

            later = [await wallet.request() for _ in range(2)]
            for request in later:
                await wallet.acknowledge(request)
            assert [each["params"]["data"]["topic"] for each in later] == [OTHERS[2]] * 2
            assert await wallet.messages(2) == ["older", "newer"]


async def test_a_topic_is_subscribed_to_anew_while_it_is_caught_up_with(tmp_path: Path) -> None:
    identity = Identity()
    async with running_server(tmp_path, max_topic_messages=WINDOW // 2) as server:
        async with irn_connected(server.client, server.url, identity) as wallet:
            await wallet.subscribe(*OTHERS)
        async with irn_connected(server.client, server.url, Identity()) as dapp:
            for topic in OTHERS:
                await dapp.publish(topic, "one")
                await dapp.publish(topic, "two")

            async with irn_connected(server.client, server.url, identity) as wallet:
                await wallet.subscribe(*OTHERS)
                first = [await wallet.request() for _ in range(WINDOW)]
                await _unsubscribe(wallet, OTHERS[2])
                await dapp.publish(OTHERS[2], "three")
                await dapp.publish(OTHERS[2], "four")
                await wallet.subscribe(OTHERS[2])
                for request in first:
                    await wallet.acknowledge(request)

                assert await wallet.messages(2) == ["three", "four"]


async def _unsubscribe(wallet: IrnClient, topic: str) -> None:
    await wallet.ask("irn_unsubscribe", {"topic": topic, "id": ""})
