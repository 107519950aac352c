"""The listener for phones has the bridge and nothing else; and the project that is always there."""

import asyncio
import re
import socket
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge_server.assembly.application import house
from bridge_server.assembly.foundation import lay_foundation
from bridge_server.settings.settings import Settings
from bridge_server.web.routes import Route
from tests.dev.conftest import DEMO, SECRET, DevServer, running_dev
from tests.support.asking import METRICS_TOKEN
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver

BRIDGE = {
    ("GET", "/hello"), ("GET", "/info"), ("POST", "/session/new"), ("GET", "/session/{}"),
    ("PUT", "/session/{}"), ("DELETE", "/session/{}"), ("GET", "/session/{}/calls"),
    ("POST", "/session/{}/call/new"), ("GET", "/session/{}/call/{}"), ("POST", "/call-status/{}/new"),
    ("GET", "/call-status/{}"), ("POST", "/subscribe"),
}  # fmt: skip
SOCKETS = {("GET", "/"), ("GET", "/compat/v1"), ("GET", "/compat/v2")}
PRIVATE = [
    "http://127.0.0.1:9/x", "http://localhost:9000/x", "http://localhost.:9000/x", "http://10.0.0.1/x",
    "http://192.168.1.20:8080/push", "http://169.254.169.254/latest", "http://0.0.0.0:9000/x",
    "http://[::1]:9000/x", "http://[fd00::2]/x", "http://[::ffff:127.0.0.1]:9000/x", "https://8.8.8.8:25/x",
]  # fmt: skip
CALL = {"encryptionPayload": "x", "dappName": "A"}
DEMO_ACCOUNT = "eip155:1:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"


def named(rows: Iterable[Route]) -> set[tuple[str, str]]:
    """Methods and paths, whose parameters have no names."""
    parameter = re.compile(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
    return {(row.method, parameter.sub("{}", row.path)) for row in rows}


async def test_routes_of_the_bridge_are_there_and_others_say_where(dev: DevServer, tmp_path: Path) -> None:
    token = "t" * 40
    settings = Settings(data_dir=tmp_path, test=True, admin_token=token, metrics_token=token)
    rooms = house(lay_foundation(settings))
    there = named(row for room in rooms for row in room.lan_routes)
    assert there == BRIDGE | SOCKETS | {(method, f"/compat/v0.7{path}") for method, path in BRIDGE}

    elsewhere = named(row for room in rooms if not room.lan_routes for row in room.routes)
    for method, path in elsewhere:
        status, problem = await dev.ask(method, dev.lan_url + path.replace("{}", "demo"))
        assert (status, problem["type"]) == (404, "urn:bridge-server:problem:answers-elsewhere"), path
        assert dev.url in problem["detail"]
    assert len(elsewhere) > 20


async def test_a_dapp_and_a_phone_meet(dev: DevServer) -> None:
    session = await dev.open_session()
    fields = {"encryptionPayload": "approval"}
    assert (await dev.ask("PUT", f"{dev.lan_url}/session/{session}", fields))[0] == 200
    assert await dev.ask("GET", f"{dev.url}/session/{session}") == (200, fields)
    assert (await dev.ask("GET", f"{dev.lan_url}/compat/v0.7/session/{session}/calls"))[1] == {"data": {}}
    assert (await dev.ask("GET", f"{dev.lan_url}/info"))[0] == 200
    for path in ("/", "/compat/v1"):
        url = f"{dev.lan_url}{path}?env=browser&host=localhost&protocol=wc&version=1"
        async with dev.client.ws_connect(url) as opened:
            assert not opened.closed


async def test_a_private_webhook_is_refused_and_nothing_is_changed(dev: DevServer) -> None:
    session = await dev.open_session()
    for url in (dev.url, dev.lan_url):
        marked = {"topic": session, "webhook": "public+http://a.example/"}  # as from a phone
        assert (await dev.ask("POST", f"{url}/subscribe", marked))[0] == 400

    for webhook in PRIVATE:
        push = {"type": "fcm", "token": "a", "webhook": webhook}
        requests: list[tuple[str, str, dict[str, Any], str]] = [
            ("PUT", f"/session/{session}", {"encryptionPayload": "x", "push": push}, "#/push/webhook"),
            ("POST", "/subscribe", {"topic": session, "webhook": webhook}, "#/webhook"),
        ]
        for method, path, fields, pointer in requests:
            for prefix in ("", "/compat/v0.7"):
                status, problem = await dev.ask(method, f"{dev.lan_url}{prefix}{path}", fields)
                (fault,) = problem["errors"]
                assert (status, fault["pointer"]) == (400, pointer), webhook
                assert "must lead to a public address" in fault["detail"]

    assert await dev.ask("GET", f"{dev.url}/session/{session}") == (204, None)


@pytest.fixture
def private_name(monkeypatch: pytest.MonkeyPatch) -> str:
    """A name that leads to this machine, as a rebinding name server would have it."""
    ask_the_system = socket.getaddrinfo

    def look_up(host: Any, *arguments: Any, **options: Any) -> Any:
        return ask_the_system("127.0.0.1" if host == "phone.example" else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return "phone.example"


async def refusals(dev: DevServer, count: int) -> set[str | None]:
    """Why webhooks were refused, once so many were."""
    found: list[str | None] = []

    async def enough() -> bool:
        found[:] = [each.reason for each in await dev.control.sent("webhook") if each.outcome == "refused"]
        return len(found) >= count

    await eventually(enough)
    return set(found)


async def test_a_name_that_leads_to_a_private_address_is_not_called(
    tmp_path: Path, receiver: WebhookReceiver, private_name: str
) -> None:
    async with running_dev(tmp_path / "data") as dev:
        session, webhook = await dev.open_session(), receiver.url(host=private_name)
        push = {"type": "fcm", "token": "a", "webhook": webhook}
        fields = {"encryptionPayload": "x", "push": push}
        assert (await dev.ask("PUT", f"{dev.lan_url}/session/{session}", fields))[0] == 200
        subscription = {"topic": session, "webhook": webhook}
        assert (await dev.ask("POST", f"{dev.lan_url}/subscribe", subscription))[0] == 200

        assert (await dev.ask("POST", f"{dev.url}/session/{session}/call/new", CALL))[0] == 200
        assert await refusals(dev, 2) == {"the address 127.0.0.1 is not public (loopback)"}
        assert {each.url for each in await dev.control.sent("webhook")} == {webhook}
    assert receiver.requests == []


async def test_the_rule_stays_with_the_registration_after_a_restart(
    tmp_path: Path, receiver: WebhookReceiver, private_name: str
) -> None:
    async with running_dev(tmp_path / "data") as dev:
        session = await dev.open_session()
        subscription = {"topic": session, "webhook": receiver.url(host=private_name)}
        assert (await dev.ask("POST", f"{dev.lan_url}/subscribe", subscription))[0] == 200
    async with running_dev(tmp_path / "data") as dev:
        await dev.ask("POST", f"{dev.url}/session/{session}/call/new", CALL)
        await refusals(dev, 1)
    assert receiver.requests == []


async def test_a_phone_that_waits_is_answered_when_the_server_stops(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as phone:
        async with running_dev(tmp_path / "data") as dev:
            url = f"{dev.lan_url}/session/{await dev.open_session()}"
            poll = asyncio.create_task(phone.get(url, headers={"Prefer": "wait=25"}))

            async def waits() -> bool:
                token = f"Bearer {METRICS_TOKEN}"
                _, figures = await dev.ask("GET", f"{dev.url}/metrics", Authorization=token)
                return "bridge_waiting_clients 1.0" in figures

            await eventually(waits)

        assert (await poll).status == 204


async def notify(dev: DevServer, secret: str = SECRET, kind: str = "news") -> tuple[int, Any]:
    notification = {"type": kind, "title": "Hello", "body": "A first notification"}
    fields = {"notification": notification, "accounts": [DEMO_ACCOUNT]}
    return await dev.ask("POST", f"{dev.url}/demo/notify", fields, Authorization=f"Bearer {secret}")


async def test_the_demo_project_notifies_with_each_of_its_types_also_after_a_reset(dev: DevServer) -> None:
    for kind in DEMO.types:
        status, answer = await notify(dev, kind=kind)
        assert (status, answer["not_found"]) == (200, [DEMO_ACCOUNT])
    assert (await notify(dev, kind="other"))[0] == 400
    await dev.control.reset()
    assert (await notify(dev))[0] == 200


async def test_the_demo_project_stays_with_a_new_secret_and_the_oldest_goes(tmp_path: Path) -> None:
    async with running_dev(tmp_path / "data", demo=None) as dev:
        assert (await notify(dev))[0] == 401
    secrets = ["bsk_first", "bsk_second", "bsk_third"]
    for secret in secrets:
        async with running_dev(tmp_path / "data", replace(DEMO, secret=secret)) as dev:
            assert (await notify(dev, secret))[0] == 200
            valid = [each for each in secrets if (await notify(dev, each))[0] == 200]
    assert valid == ["bsk_second", "bsk_third"]
