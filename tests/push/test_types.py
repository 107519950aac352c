"""Types of tokens: which there are, how they may be spelled, what a token looks like."""

from pathlib import Path

import orjson
import pytest

from tests.support.problems import pointers
from tests.support.push_client import TOPIC, PushClient
from tests.support.push_services import APNS_TOKEN, FCM_TOKEN, PushServices
from tests.support.rows import each_row
from tests.support.server import running_server


@each_row(
    ("spelled", "channel", "token"),
    [
        ("fcm", "fcm", FCM_TOKEN),
        ("FCM", "fcm", FCM_TOKEN),
        ("apns", "apns", APNS_TOKEN),
        ("apn", "apns", APNS_TOKEN),
        ("APNS", "apns", APNS_TOKEN),
        ("APN", "apns", APNS_TOKEN),
        ("apns", "apns", APNS_TOKEN.upper()),
        ("Webhook", "webhook", "https://device.example/hook"),
        ("Log", "log", "anything"),
    ],
)
async def test_a_type_may_be_written_in_any_case_and_by_its_old_name(
    connected: PushClient, spelled: str, channel: str, token: str
) -> None:
    assert (await connected.register(type=spelled, token=token)).status == 200

    urls = {"fcm": f"fcm:{FCM_TOKEN}", "apns": f"apns:{APNS_TOKEN}", "webhook": token, "log": "log:"}
    assert connected.registrations() == [(TOPIC, channel, urls[channel])]


async def test_a_browsers_subscription_is_a_token(connected: PushClient, services: PushServices) -> None:
    assert (await connected.register(type="WebPush", token=services.subscription)).status == 200

    ((url, lane),) = connected.registrations("url, lane")
    assert orjson.loads(url.removeprefix("webpush:"))["keys"]["auth"] == services.browser.auth
    assert lane == f"webpush {services.webpush.origin}"


@each_row("name", ["fcm", "apns", "apn", "webpush", "pigeon", "web push", " log", "ſog"])
@pytest.mark.own_server
async def test_type_without_configuration_is_refused_with_the_list_of_types(
    push: PushClient, name: str
) -> None:
    problem = (await push.register(type=name)).problem(400)

    assert pointers(problem) == ["#/type"]
    assert problem["errors"][0]["detail"] == "is not a configured type: choose from log, webhook"


async def test_the_log_can_be_left_out(tmp_path: Path) -> None:
    async with running_server(tmp_path, push_log=False) as server:
        problem = (await PushClient(server).register(type="log")).problem(400)

    assert problem["errors"][0]["detail"] == "is not a configured type: choose from webhook"


async def test_every_type_is_named_when_all_are_configured(connected: PushClient) -> None:
    problem = (await connected.register(type="pigeon")).problem(400)

    assert problem["errors"][0]["detail"].endswith(" apns, fcm, log, webhook, webpush")


@each_row(
    ("name", "token"),
    [
        ("fcm", "with a space"),
        ("fcm", "é"),
        ("fcm", "a" * 4_097),
        ("apns", "0123"),
        ("apns", "g" * 64),
        ("apns", "a" * 63),
        ("apns", "a" * 258),
        ("webhook", "device.example"),
        ("webhook", "log:"),
        ("webpush", "{}"),
        ("webpush", "not JSON"),
        ("webpush", '{"endpoint": "https://push.example/1", "keys": {"p256dh": "AAAA", "auth": "AAAA"}}'),
    ],
)
async def test_malformed_token_of_a_type_is_refused_without_quoting_it(
    connected: PushClient, name: str, token: str
) -> None:
    answer = await connected.register(type=name, token=token)

    assert pointers(answer.problem(400)) == ["#/token"]
    assert token not in answer.problem(400)["errors"][0]["detail"] or token == "{}"
    assert connected.registrations() == []


async def test_a_browser_behind_http_is_for_development_only(tmp_path: Path, services: PushServices) -> None:
    vapid = {name: value for name, value in services.settings.items() if name.startswith("vapid")}
    async with running_server(tmp_path, **vapid) as server:
        answer = await PushClient(server).register(type="webpush", token=services.subscription)

    assert pointers(answer.problem(400)) == ["#/token"]
