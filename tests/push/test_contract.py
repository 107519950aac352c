"""The contract's two endpoints, to the byte."""

from tests.support.asking import ask
from tests.support.problems import pointers
from tests.support.push_client import PushClient
from tests.support.rows import each_row

LONGEST_TOPIC, LONGEST_TEXT, LONGEST_URL = 128, 1_024, 2_048


def url_of(length: int) -> str:
    return "https://bridge.example/".ljust(length, "a")


async def test_registering_answers_success(push: PushClient) -> None:
    answer = await push.register()

    assert (answer.status, answer.body) == (200, b'{"success":true}')
    assert answer.headers["Content-Type"] == "application/json"


async def test_pushing_answers_success_in_both_spellings(push: PushClient) -> None:
    await push.register()

    answer = await push.push()

    assert (answer.status, answer.body) == (200, b'{"success":true,"successs":true}')
    assert answer.headers["Content-Type"] == "application/json"


async def test_web_pages_of_any_origin_may_register(push: PushClient) -> None:
    headers = {"Origin": "https://wallet.example", "Access-Control-Request-Method": "POST"}

    preflight = await ask(push.server, "OPTIONS", "/new", headers=headers)
    answer = await push.post("/new", push.fields(), {"Origin": "https://wallet.example"})

    assert preflight.status == 204
    assert preflight.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


@each_row("field", ["bridge", "topic", "type", "token", "peerName", "language"])
@each_row("value", [None, 7, True, ["a"], {"a": "b"}, "left out"], ids=str)
async def test_every_field_must_be_a_string(push: PushClient, field: str, value: object) -> None:
    fields = push.fields(**{field: value})
    if value == "left out":
        del fields[field]

    problem = (await push.post("/new", fields)).problem(400)

    assert pointers(problem) == [f"#/{field}"]
    assert push.registrations() == push.webhooks() == []


@each_row("field", ["bridge", "topic", "type", "token"])
async def test_the_first_four_must_not_be_empty(push: PushClient, field: str) -> None:
    problem = (await push.register(**{field: ""})).problem(400)

    assert pointers(problem) == [f"#/{field}"]


@each_row("field", ["peerName", "language"])
async def test_the_last_two_may_be_empty(push: PushClient, field: str) -> None:
    assert (await push.register(**{field: ""})).status == 200


@each_row(
    ("field", "longest"),
    [
        ("topic", "é" * LONGEST_TOPIC),
        ("peerName", "é" * LONGEST_TEXT),
        ("language", "e" * LONGEST_TEXT),
    ],
)
async def test_field_has_a_greatest_length(push: PushClient, field: str, longest: str) -> None:
    assert (await push.register(**{field: longest})).status == 200

    problem = (await push.register(**{field: f"{longest}a"})).problem(400)

    assert pointers(problem) == [f"#/{field}"]


async def test_webhook_url_has_a_greatest_length(push: PushClient) -> None:
    assert (await push.register(type="webhook", token=url_of(LONGEST_URL))).status == 200

    problem = (await push.register(type="webhook", token=url_of(LONGEST_URL + 1))).problem(400)

    assert pointers(problem) == ["#/token"]


@each_row(
    "bridge",
    [
        "bridge.example",
        "/",
        "ftp://a.example",
        "https://",
        "https://bücher.example",
        "http://a b/",
        url_of(2_049),
    ],
)
async def test_a_bridge_is_an_http_url(push: PushClient, bridge: str) -> None:
    assert pointers((await push.register(bridge=bridge)).problem(400)) == ["#/bridge"]


async def test_all_faults_are_named_at_once(push: PushClient) -> None:
    fields = {"bridge": "nowhere", "topic": "", "type": "pigeon", "token": 7, "peerName": None}

    problem = (await push.post("/new", fields)).problem(400)

    assert sorted(pointers(problem)) == [
        "#/bridge", "#/language", "#/peerName", "#/token", "#/topic", "#/type",
    ]  # fmt: skip


async def test_a_bad_token_is_named_beside_other_faults(push: PushClient) -> None:
    problem = (await push.register(topic="", type="webhook", token="ftp://a.example")).problem(400)

    assert sorted(pointers(problem)) == ["#/token", "#/topic"]


async def test_unknown_fields_are_ignored(push: PushClient) -> None:
    assert (await push.register(platform="any")).status == 200


@each_row("path", ["/new", "/push"])
@each_row("body", [b"", b"[]", b"null", b'"a"', b"{", b'{"topic":"\\ud800"}', b'{"topic":NaN}'])
async def test_body_other_than_a_json_object_is_refused(push: PushClient, path: str, body: bytes) -> None:
    (await push.post(path, body)).problem(400)


@each_row("topic", [None, 7, True, [], {}, "", "a" * (LONGEST_TOPIC + 1)], ids=str)
async def test_the_topic_of_a_push_must_be_a_string_of_some_length(push: PushClient, topic: object) -> None:
    assert pointers((await push.post("/push", {"topic": topic})).problem(400)) == ["#/topic"]


async def test_the_topic_of_a_push_is_needed(push: PushClient) -> None:
    assert pointers((await push.post("/push", {})).problem(400)) == ["#/topic"]


@each_row("topic", ["a", "é" * LONGEST_TOPIC, "\u0000", "a/b?c"])
async def test_any_topic_can_be_registered_and_pushed_for(push: PushClient, topic: str) -> None:
    assert (await push.register(topic=topic)).status == 200
    assert (await push.push(topic)).status == 200
