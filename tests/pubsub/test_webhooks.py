"""What is published calls the topic's webhooks, unless it is silent."""

from pathlib import Path

from tests.pubsub.conftest import Connect
from tests.support.bridge_client import BridgeClient
from tests.support.figures import METRICS_TOKEN, until_delivered
from tests.support.project import look
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.socket_client import connected
from tests.support.webhook_receiver import WebhookReceiver, status

NOTICE = b'{"topic":"topic"}'


async def told(server: RunningServer, receiver: WebhookReceiver) -> list[tuple[str, bytes]]:
    """Where, and with what body, everything so far was told."""
    await until_delivered(server)
    found = sorted((request.path, request.body) for request in receiver.requests)
    receiver.requests.clear()
    return found


@each_row("somebody_is_there", [True, False])
async def test_each_webhook_gets_one_notice_of_each_message(
    connect: Connect, server: RunningServer, receiver: WebhookReceiver, somebody_is_there: bool
) -> None:
    dapp, wallet = await connect(), await connect()
    if somebody_is_there:
        await wallet.subscribe("topic")
    for path in ("/one", "/two"):
        await BridgeClient(server).subscribe("topic", receiver.url(path))
    await BridgeClient(server).subscribe("other", receiver.url("/other"))

    await dapp.publish("topic", "first", "second", silent=False)

    assert await told(server, receiver) == [("/one", NOTICE)] * 2 + [("/two", NOTICE)] * 2


async def test_a_message_that_does_not_say_whether_it_is_silent_is_not(
    connect: Connect, server: RunningServer, receiver: WebhookReceiver
) -> None:
    dapp = await connect()
    await BridgeClient(server).subscribe("topic", receiver.url())

    await dapp.socket.send_str('{"topic":"topic","type":"pub","payload":""}')
    await dapp.settled()

    assert await told(server, receiver) == [("/hook", NOTICE)]


async def test_silent_messages_subscriptions_and_acknowledgements_cause_no_notice(
    connect: Connect, server: RunningServer, receiver: WebhookReceiver
) -> None:
    dapp, wallet = await connect(), await connect()
    await BridgeClient(server).subscribe("topic", receiver.url())

    await dapp.publish("topic", "payload", silent=True)
    await wallet.say("topic", "sub", silent=False)
    await wallet.say("topic", "ack", silent=False)
    await wallet.settled()

    assert await told(server, receiver) == []


async def test_a_refused_message_causes_no_notice(tmp_path: Path, receiver: WebhookReceiver) -> None:
    async with (
        running_server(
            tmp_path, max_topic_messages=1, metrics_token=METRICS_TOKEN, allow_private_webhooks=True
        ) as server,
        connected(server.client, server.url) as dapp,
    ):
        await BridgeClient(server).subscribe("topic", receiver.url())
        await dapp.publish("topic", "taken", silent=False)
        await dapp.say("topic", "pub", "refused", silent=False)
        await dapp.closed()

        assert await told(server, receiver) == [("/hook", NOTICE)]


async def test_a_webhook_that_answers_410_gets_no_further_notice(
    connect: Connect, server: RunningServer, receiver: WebhookReceiver
) -> None:
    dapp = await connect()
    await BridgeClient(server).subscribe("topic", receiver.url())
    receiver.script.append(status(410))

    await dapp.publish("topic", "first", silent=False)
    first = await told(server, receiver)
    await dapp.publish("topic", "second", silent=False)

    assert (len(first), await told(server, receiver)) == (1, [])


async def test_an_expired_webhook_gets_no_notice(
    connect: Connect, server: RunningServer, receiver: WebhookReceiver
) -> None:
    dapp = await connect()
    await BridgeClient(server).subscribe("topic", receiver.url())
    server.clock.advance(30 * 86_400)

    await dapp.publish("topic", "payload", silent=False)

    assert await told(server, receiver) == []


async def test_a_notice_counts_to_the_address_that_the_message_came_from_and_to_its_topic(
    tmp_path: Path,
) -> None:
    exempt = "192.0.2.77"
    async with running_server(tmp_path, trusted_proxies="127.0.0.1", quota_exempt=exempt) as server:
        await BridgeClient(server).subscribe("topic", "http://192.0.2.1:9/hook")
        for address in ("198.51.100.7", "192.0.2.77"):
            headers = {"X-Forwarded-For": address}
            async with connected(server.client, server.url, headers=headers) as dapp:
                await dapp.publish("topic", "message", silent=False)
                await dapp.settled()

        whose = look(server, "SELECT client, subject, queue FROM outbox ORDER BY id")

    assert whose == [("198.51.100.7", "topic", "topic"), (None, "topic", "topic")]


async def test_notices_to_webhooks_are_charged_to_the_publisher(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path / "data", quota_exempt=(), payload_bytes_per_address=1_000) as server,
        connected(server.client, server.url) as dapp,
    ):
        webhook = f"https://example.org/{'x' * 400}"
        await BridgeClient(server).subscribe("topic", webhook)

        await dapp.publish("topic", "first", "second", silent=False)
        await dapp.settled()
        await dapp.say("topic", "pub", "third", silent=False)

        code, reason = await dapp.closed()
        assert (code, "your address has as much waiting" in reason) == (1013, True)
