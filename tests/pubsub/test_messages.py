"""Publishing, subscribing, acknowledging."""

import pytest

from tests.pubsub.conftest import Connect
from tests.support.asking import ask
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.support.socket_client import spelled


@each_row(
    "path", ["/", "/compat/v1", "/?protocol=wc&version=1&env=browser&host=dapp.example", "/compat/v1?env=x"]
)
async def test_a_subscriber_receives_published_messages(connect: Connect, path: str) -> None:
    wallet, dapp = await connect(path), await connect()
    await wallet.subscribe("topic")

    await dapp.publish("topic", "payload")

    message = await wallet.message()
    assert message == {"topic": "topic", "type": "pub", "payload": "payload", "silent": True}


async def test_a_message_comes_as_the_published_clients_write_it(connect: Connect) -> None:
    wallet, dapp = await connect(), await connect()
    await wallet.subscribe("topic")

    await dapp.socket.send_str(
        '{"type": "pub", "payload": "\\u00e9\\"", "extra": {"topic": 1}, "topic": "topic"}'
    )

    text = (await wallet.socket.receive(10)).data
    assert text == '{"topic":"topic","type":"pub","payload":"é\\"","silent":false}'


async def test_a_subscriber_receives_no_messages_of_other_topics(connect: Connect) -> None:
    wallet, dapp = await connect(), await connect()
    await wallet.subscribe("topic")

    await dapp.publish("other", "payload")

    await wallet.nothing()


async def test_every_socket_on_a_topic_receives_a_message_once(connect: Connect) -> None:
    wallets, dapp = [await connect() for _ in range(3)], await connect()
    for wallet in wallets:
        await wallet.subscribe("topic", "topic", "topic")

    await dapp.publish("topic", "one", "two")

    assert [await wallet.payloads(2) for wallet in wallets] == [["one", "two"]] * 3


async def test_the_sender_does_not_receive_its_own_message(connect: Connect) -> None:
    one, other = await connect(), await connect()
    await one.subscribe("topic")
    await other.subscribe("topic")

    await one.publish("topic", "from one")

    assert await other.payloads(1) == ["from one"]
    await one.nothing()


async def test_a_message_without_another_subscriber_waits_for_one(connect: Connect) -> None:
    sender = await connect()
    await sender.subscribe("topic")
    await sender.publish("topic", "payload")

    other = await connect()
    await other.subscribe("topic")

    assert await other.payloads(1) == ["payload"]
    await sender.nothing()


async def test_a_socket_that_subscribes_later_does_not_receive_its_own_messages(connect: Connect) -> None:
    sender, other = await connect(), await connect()
    await sender.publish("topic", "mine")
    await other.publish("topic", "yours")

    await sender.subscribe("topic")

    assert await sender.payloads(1) == ["yours"]


async def test_messages_wait_in_the_order_in_which_they_came(connect: Connect) -> None:
    dapp, wallet = await connect(), await connect()
    payloads = [f"message {number}" for number in range(200)]
    await dapp.publish("topic", *payloads[:150])
    await wallet.say("topic", "sub")
    await dapp.publish("topic", *payloads[150:])

    assert await wallet.payloads(200) == payloads


async def test_an_acknowledged_message_is_not_sent_again(connect: Connect) -> None:
    dapp, wallet, later = await connect(), await connect(), await connect()
    await dapp.publish("topic", "one", "two", "three")
    await wallet.subscribe("topic")
    await wallet.acknowledge("topic", times=2)

    await later.subscribe("topic")

    assert await later.payloads(1) == ["three"]


async def test_an_unacknowledged_message_is_sent_to_the_next_subscriber(connect: Connect) -> None:
    dapp, wallet, later = await connect(), await connect(), await connect()
    await wallet.subscribe("topic")
    await dapp.publish("topic", "one", "two")
    assert await wallet.payloads(2) == ["one", "two"]
    wallet.vanish()

    await later.subscribe("topic")

    assert await later.payloads(2) == ["one", "two"]


async def test_the_first_acknowledgement_of_several_receivers_counts(connect: Connect) -> None:
    dapp, one, other, later = [await connect() for _ in range(4)]
    await one.subscribe("topic")
    await other.subscribe("topic")
    await dapp.publish("topic", "one", "two")

    await one.acknowledge("topic")
    await other.acknowledge("topic")
    await later.subscribe("topic")

    assert await later.payloads(1) == ["two"]


async def test_an_acknowledgement_without_a_message_is_ignored(connect: Connect) -> None:
    dapp, wallet, stranger = await connect(), await connect(), await connect()
    await dapp.publish("topic", "payload")
    await stranger.acknowledge("topic", times=3)
    await stranger.acknowledge("other")

    await wallet.acknowledge("topic")  # as the published client does after its connection broke off
    await wallet.subscribe("topic")

    assert await wallet.payloads(1) == ["payload"]


async def test_acknowledgements_count_for_each_topic_by_itself(connect: Connect) -> None:
    dapp, wallet, later = await connect(), await connect(), await connect()
    await wallet.subscribe("a", "b")
    await dapp.publish("a", "of a")
    await dapp.publish("b", "of b")

    await wallet.acknowledge("b")
    await later.subscribe("a", "b")

    assert await later.payloads(1) == ["of a"]


async def test_two_wallets_of_one_topic_both_have_a_backlog(connect: Connect) -> None:
    dapp, one, other = await connect(), await connect(), await connect()
    await dapp.publish("topic", "one", "two")

    await one.subscribe("topic")
    await other.subscribe("topic")

    assert await one.payloads(2) == await other.payloads(2) == ["one", "two"]


@each_row("topic", ["t", "t" * 128, "😀" * 128, "\u0000", "'; DROP TABLE topic_messages; --"])
async def test_any_text_of_1_to_128_characters_is_a_topic(connect: Connect, topic: str) -> None:
    dapp, wallet = await connect(), await connect()
    await dapp.publish(topic, "waited", silent=False)
    await wallet.subscribe(topic)
    await dapp.publish(topic, "live", silent=False)

    assert await wallet.payloads(2) == ["waited", "live"]


@pytest.mark.parametrize("payload", ["", "x" * 100_000, "\u0000", '😀\u2028\\"</script>', '{"data":"ab"}'])
async def test_any_text_is_a_payload(connect: Connect, payload: str) -> None:
    dapp, wallet = await connect(), await connect()
    await dapp.publish("topic", payload)

    await wallet.subscribe("topic")

    assert await wallet.payloads(1) == [payload]


async def test_a_payload_may_be_left_out_where_there_is_none(connect: Connect) -> None:
    wallet, dapp = await connect(), await connect()
    await wallet.socket.send_str('{"topic":"topic","type":"sub"}')
    await wallet.settled()
    await dapp.publish("topic", "one")

    await wallet.socket.send_str('{"topic":"topic","type":"ack"}')

    assert await wallet.payloads(1) == ["one"]


async def test_the_root_is_a_page_about_the_server(server: RunningServer) -> None:
    for path in ("/", "/compat/v1"):
        answer = await ask(server, "GET", path)

        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b"<h1>Bridge Server 1." in answer.body
        assert b'href="/info"' in answer.body


@each_row(
    "headers",
    [
        {"Connection": "Upgrade"},
        {"Connection": "Upgrade", "Sec-WebSocket-Version": "13"},
        {"Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "short"},
        {"Connection": "Upgrade", "Sec-WebSocket-Version": "1", "Sec-WebSocket-Key": "A" * 22 + "=="},
        {"Connection": "close", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "A" * 22 + "=="},
    ],
)
async def test_an_invalid_handshake_gets_a_problem(server: RunningServer, headers: dict[str, str]) -> None:
    answer = await ask(server, "GET", "/", headers={"Upgrade": "websocket", **headers})

    assert "Sec-WebSocket-Key" in answer.problem(400)["detail"]


async def test_a_handshake_is_answered_with_its_request_id(connect: Connect, server: RunningServer) -> None:
    async with server.client.ws_connect(server.url, headers={"X-Request-ID": "mine"}) as socket:
        assert socket._response.headers["X-Request-ID"] == "mine"


async def test_a_socket_speaks_in_text_without_compression(server: RunningServer) -> None:
    async with server.client.ws_connect(server.url, compress=15) as socket:
        await socket.send_str(spelled("topic", "sub"))

        assert socket.compress == 0


async def test_binary_frames_with_json_are_messages(connect: Connect) -> None:
    dapp, wallet = await connect(), await connect()
    await wallet.socket.send_bytes(spelled("topic", "sub").encode())
    await wallet.settled()

    await dapp.socket.send_bytes(spelled("topic", "pub", "é").encode())

    assert await wallet.payloads(1) == ["é"]
