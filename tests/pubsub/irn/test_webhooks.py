"""What is published with `prompt` calls the topic's webhooks, and wakes who registered for pushes."""

import pytest

from tests.pubsub.irn.conftest import Join
from tests.support.bridge_client import BridgeClient
from tests.support.figures import until_delivered
from tests.support.irn_client import topic_of
from tests.support.server import RunningServer
from tests.support.webhook_receiver import WebhookReceiver

TOPIC = topic_of("topic")
NOTICE = b'{"topic":"%s"}' % TOPIC.encode()


@pytest.mark.parametrize("somebody_is_there", [True, False])
async def test_a_prompt_calls_the_webhooks_once(
    join: Join, server: RunningServer, receiver: WebhookReceiver, somebody_is_there: bool
) -> None:
    dapp, wallet = await join(), await join()
    if somebody_is_there:
        await wallet.subscribe(TOPIC)
    await BridgeClient(server).subscribe(TOPIC, receiver.url("/hook"))

    for _ in range(2):
        await dapp.publish(TOPIC, request_id=1, prompt=True)
    await dapp.publish(TOPIC, prompt=False)
    await dapp.publish(TOPIC)
    await dapp.ask("wc_proposeSession", {"pairingTopic": TOPIC, "sessionProposal": "sealed"})
    await until_delivered(server)

    assert [request.body for request in receiver.requests] == [NOTICE] * 2


async def test_a_push_registration_is_woken(
    join: Join, server: RunningServer, receiver: WebhookReceiver
) -> None:
    dapp = await join()
    registration = {
        "bridge": server.url, "topic": TOPIC, "type": "webhook", "token": receiver.url("/device"),
        "peerName": "Example Dapp", "language": "en",
    }  # fmt: skip
    async with server.client.post(f"{server.url}/new", json=registration) as response:
        assert response.status == 200, await response.text()

    await dapp.publish(TOPIC, prompt=True)
    await until_delivered(server)

    assert [request.path for request in receiver.requests] == ["/device"]
