"""Routes for operators: alive, ready, and the figures."""

import re
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict

from bridge_server.assembly.application import house
from bridge_server.assembly.foundation import lay_foundation
from bridge_server.assembly.system_routes import MEANINGS
from bridge_server.kernel.version import VERSION
from bridge_server.settings.settings import Settings
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.asking import METRICS_TOKEN, Answer, ask
from tests.support.push_client import PushClient
from tests.support.server import RunningServer
from tests.support.webhook_receiver import WebhookReceiver, status


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return {
        "admin_token": ADMIN_TOKEN, "metrics_token": METRICS_TOKEN, "quota_exempt": (), "sessions_burst": 1,
        "account_burst": 1, "allow_private_webhooks": True,
    }  # fmt: skip


async def metrics(server: RunningServer, *authorizations: str) -> Answer:
    headers = CIMultiDict([("Authorization", value) for value in authorizations])
    return await ask(server, "GET", "/metrics", headers=headers)


async def test_a_server_that_works_says_so(server: RunningServer) -> None:
    for path, word in (("/livez", b"alive\n"), ("/readyz", b"ready\n")):
        answer = await ask(server, "GET", path)
        assert (answer.status, answer.body) == (200, word)
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.own_server
async def test_the_bearer_of_the_token_reads_the_metrics(server: RunningServer) -> None:
    await ask(server, "GET", "/nope")
    for scheme in ("Bearer", "bearer", "BEARER"):
        answer = await metrics(server, f"{scheme} {METRICS_TOKEN}")
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert 'bridge_http_requests_total{route="unrouted",status="404"} 1.0\n' in answer.body.decode()


async def test_every_other_token_is_refused(server: RunningServer, other_server: RunningServer) -> None:
    nothing = (await metrics(server)).problem(401)
    right = f"Bearer {METRICS_TOKEN}"
    for authorizations in (
        ["Bearer "], [METRICS_TOKEN], [f"Basic {METRICS_TOKEN}"], [f"{right}x"], [right[:-1]], ["Bearer é😀"],
        [right, right], ["Bearer wrong", right],
    ):  # fmt: skip
        answer = await metrics(server, *authorizations)
        assert {**answer.problem(401), "instance": ""} == {**nothing, "instance": ""}, authorizations
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    (await metrics(other_server, right)).problem(404)  # its settings have no token


async def figures(server: RunningServer) -> str:
    return (await metrics(server, f"Bearer {METRICS_TOKEN}")).body.decode()


async def test_the_build_is_named_and_every_figure_explained(server: RunningServer, tmp_path: Path) -> None:
    text = await figures(server)
    numbers = rf'{{python="3\.[0-9.]+",sqlite="3\.[0-9.]+",version="{re.escape(VERSION)}"}}'
    assert re.search(rf"^bridge_build_info{numbers} 1\.0$", text, re.MULTILINE)
    settings = {**server.settings.model_dump(), "data_dir": tmp_path, "database_limit": 10**9}
    rooms = house(lay_foundation(Settings(**settings)))
    assert {name for room in rooms for name in room.gauges()} <= MEANINGS.keys()
    helps = re.findall(r"^# HELP \w+ (.*)$", text, re.MULTILINE)
    assert all(meaning.endswith(".") and len(meaning.split()) > 2 for meaning in helps)


async def test_refusals_notifications_and_pushes_are_counted_by_their_outcome(server: RunningServer) -> None:
    for _ in range(3):
        await ask(server, "POST", "/session/new")
    admin, push = AdminClient(server), PushClient(server)
    secret = await admin.create("app", "news")
    await admin.subscribe("app", "test:chain:1")
    await admin.subscribe("app", "test:chain:2", [])
    for _ in range(2):
        await admin.notify("app", secret, "news", "test:chain:1", "test:chain:2", "test:chain:3")
    await push.register(type="fcm")
    await push.push()

    text = await figures(server)

    assert "# TYPE bridge_refused_requests_total counter" in text
    assert 'bridge_refused_requests_total{limit="new-sessions"} 2.0' in text
    outcomes = dict(re.findall(r'^bridge_notifications_total{outcome="(\w+)"} (\d+)', text, re.MULTILINE))
    assert outcomes == {
        "sent": "1", "rate_limited": "1", "type_not_subscribed": "2", "not_subscribed": "2"
    }  # fmt: skip
    assert 'bridge_push_attempts_total{channel="fcm",outcome="delivered"} 1.0' in text


async def test_the_oldest_due_delivery_has_its_age(server: RunningServer, receiver: WebhookReceiver) -> None:
    async def age() -> float:
        pattern = r"^bridge_outbox_oldest_due_seconds ([0-9.]+)$"
        [found] = re.findall(pattern, await figures(server), re.MULTILINE)
        return float(found)

    receiver.otherwise = status(503, Retry_After="3600")
    admin = AdminClient(server)
    await admin.create("app", "news")
    await admin.put("/admin/projects/app/webhook", {"url": receiver.url()})
    assert await age() == 0
    await admin.subscribe("app", "test:chain:1")
    await receiver.got(1)

    assert await age() == 0
    server.clock.set_by(7_200)
    assert 0 <= await age() <= 7_200


@pytest.mark.sqlite("its log has a size")
async def test_sizes_of_the_database_are_there(server: RunningServer) -> None:
    text = await figures(server)
    [size] = re.findall(r"^bridge_database_bytes ([0-9.e+]+)$", text, re.MULTILINE)
    assert float(size) > 0
    assert "\nbridge_database_log_bytes " in text
