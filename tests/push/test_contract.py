"""The contract's two endpoints, to the byte, and the types of tokens that they take."""

from pathlib import Path

import orjson
import pytest

from tests.support.asking import pointers
from tests.support.push_client import TOPIC, PushClient
from tests.support.push_services import APNS_TOKEN, FCM_TOKEN, PushServices
from tests.support.rows import each_row
from tests.support.server import running_server

LONGEST_TOPIC = 128
FIELDS = ["bridge", "topic", "type", "token", "peerName", "language"]


async def test_registering_answers_success_and_pushing_in_both_spellings(push: PushClient) -> None:
    registered = await push.register(platform="an unknown field")
    pushed = await push.push()
    assert (registered.status, registered.body) == (200, b'{"success":true}')
    assert (pushed.status, pushed.body) == (200, b'{"success":true,"successs":true}')
    assert {each.headers["Content-Type"] for each in (registered, pushed)} == {"application/json"}


async def test_every_field_is_a_string_and_the_first_four_are_not_empty(push: PushClient) -> None:
    for field in FIELDS:
        missing = {name: value for name, value in push.fields().items() if name != field}
        for fields in (missing, {**missing, field: None}, {**missing, field: 7}):
            assert pointers((await push.post("/new", fields)).problem(400)) == [f"#/{field}"]
    for field in FIELDS[:4]:
        assert pointers((await push.register(**{field: ""})).problem(400)) == [f"#/{field}"]
    for bridge in ("ftp://a.example", f"{push.server.url}?a=b", "https://a.example/?", "https://a.example#b"):
        assert pointers((await push.register(bridge=bridge)).problem(400)) == ["#/bridge"]

    every_fault = {"bridge": "nowhere", "topic": "", "type": "pigeon", "token": 7, "peerName": None}
    problem = (await push.post("/new", every_fault)).problem(400)
    with_a_bad_token = (await push.register(topic="", type="webhook", token="ftp://a.example")).problem(400)
    assert sorted(pointers(problem)) == sorted(f"#/{field}" for field in FIELDS)
    assert sorted(pointers(with_a_bad_token)) == ["#/token", "#/topic"]

    assert push.registrations() == push.webhooks() == []
    assert (await push.register(peerName="", language="")).status == 200


@each_row(
    ("field", "most", "unit"),
    [
        ("topic", LONGEST_TOPIC, "é"),
        ("peerName", 1_024, "é"),
        ("language", 1_024, "e"),
        ("type", 64, "x"),
        ("token", 4_096, "x"),
        ("bridge", 2_048, "https://bridge.example/"),
    ],
)
async def test_field_has_a_greatest_length(push: PushClient, field: str, most: int, unit: str) -> None:
    if field not in ("type", "bridge"):  # which have a form, too
        assert (await push.register(**{field: unit * most})).status == 200
    kept = push.registrations()

    longer = (unit * (most + 1))[: most + 1]
    problem = (await push.register(**{field: longer})).problem(400)

    assert pointers(problem) == [f"#/{field}"]
    assert str(most) in problem["errors"][0]["detail"]
    assert push.registrations() == kept


async def test_the_topic_of_a_push_is_a_string_that_can_be_registered(push: PushClient) -> None:
    for fields in ({}, {"topic": 7}, {"topic": ""}, {"topic": "a" * (LONGEST_TOPIC + 1)}):
        assert pointers((await push.post("/push", fields)).problem(400)) == ["#/topic"]
    for topic in ("é" * LONGEST_TOPIC, "\u0000", "a/b?c"):
        assert (await push.register(topic=topic)).status == 200
        assert (await push.push(topic)).status == 200


# Types of tokens.


async def test_types_in_any_case_and_by_their_old_name(connected: PushClient, services: PushServices) -> None:
    for spelled, token, channel, url in (
        ("FCM", FCM_TOKEN, "fcm", f"fcm:{FCM_TOKEN}"),
        ("apns", APNS_TOKEN.upper(), "apns", f"apns:{APNS_TOKEN}"),
        ("APN", APNS_TOKEN, "apns", f"apns:{APNS_TOKEN}"),
        ("Webhook", "https://device.example/hook", "webhook", "https://device.example/hook"),
        ("Log", "anything", "log", "log:"),
    ):
        assert (await connected.register(type=spelled, token=token)).status == 200
        assert connected.registrations() == [(TOPIC, channel, url)]

    assert (await connected.register(type="WebPush", token=services.subscription)).status == 200
    ((url, lane),) = connected.registrations("url, lane")
    assert orjson.loads(url.removeprefix("webpush:"))["keys"]["auth"] == services.browser.auth
    assert lane == f"webpush {services.webpush.origin}"


@each_row("name", ["fcm", "apn", "webpush", " log", "ſog"])
@pytest.mark.own_server
async def test_unconfigured_type_is_refused_with_the_list_of_types(push: PushClient, name: str) -> None:
    problem = (await push.register(type=name)).problem(400)
    assert pointers(problem) == ["#/type"]
    assert problem["errors"][0]["detail"] == "is not a configured type: choose from log, webhook"


async def test_the_log_left_out_and_a_browser_behind_http(tmp_path: Path, services: PushServices) -> None:
    vapid = {name: value for name, value in services.settings.items() if name.startswith("vapid")}
    async with running_server(tmp_path, push_log=False, **vapid) as server:
        problem = (await PushClient(server).register(type="log")).problem(400)
        behind_http = await PushClient(server).register(type="webpush", token=services.subscription)
    assert problem["errors"][0]["detail"] == "is not a configured type: choose from webhook, webpush"
    assert pointers(behind_http.problem(400)) == ["#/token"]


async def test_malformed_token_of_a_type_is_refused_without_quoting_it(connected: PushClient) -> None:
    tokens = {"fcm": "with a space", "apns": "0123", "webhook": "log:", "webpush": "not JSON"}
    for name, token in tokens.items():
        problem = (await connected.register(type=name, token=token)).problem(400)
        assert pointers(problem) == ["#/token"]
        assert token not in problem["errors"][0]["detail"]
    assert connected.registrations() == []


@each_row("token", ["//[x", "//x]:y", "//[v1.x"])
async def test_a_token_that_looks_like_a_broken_url_is_a_token(connected: PushClient, token: str) -> None:
    assert (await connected.register(type="fcm", token=token)).status == 200
    assert connected.registrations() == [(TOPIC, "fcm", f"fcm:{token}")]
