"""The webhook that hears of a project's subscriptions."""

from typing import Any

import orjson

from bridge_server.outbox.sender import WebhookSigner
from tests.support.admin_client import ETHEREUM, AdminClient
from tests.support.problems import pointers
from tests.support.rows import each_row
from tests.support.webhook_receiver import WebhookReceiver

WEBHOOK = "/admin/projects/app/webhook"


async def test_a_webhook_is_answered_with_the_secret_that_signs(admin: AdminClient) -> None:
    await admin.create("app")

    answer = await admin.put(WEBHOOK, {"url": "https://app.example/hook?a=b"})

    assert answer.json.keys() == {"url", "signing_secret"}
    assert answer.json["url"] == "https://app.example/hook?a=b"
    assert answer.json["signing_secret"].startswith("whsec_")
    assert (await admin.get("/admin/projects/app")).json["webhook"] == "https://app.example/hook?a=b"


async def test_webhook_gets_subscriptions_signed_with_its_secret(
    admin: AdminClient, receiver: WebhookReceiver
) -> None:
    await admin.create("app", "news")
    secret = (await admin.put(WEBHOOK, {"url": receiver.url()})).json["signing_secret"]

    await admin.subscribe("app", ETHEREUM)
    await receiver.got(1)

    (got,) = receiver.requests
    assert orjson.loads(got.body)["event"] == "subscribed"
    moment_ms = int(got.headers["webhook-timestamp"]) * 1000
    signed = WebhookSigner(secret).headers(got.headers["webhook-id"], got.body, moment_ms)
    assert got.headers["webhook-signature"] == signed["webhook-signature"]


async def test_setting_it_again_makes_another_secret(admin: AdminClient) -> None:
    await admin.create("app")

    first, second = [(await admin.put(WEBHOOK, {"url": "https://app.example"})).json for _ in range(2)]

    assert first["signing_secret"] != second["signing_secret"]


async def test_a_removed_webhook_hears_no_more(admin: AdminClient, receiver: WebhookReceiver) -> None:
    await admin.create("app")
    await admin.put(WEBHOOK, {"url": receiver.url("/removed")})

    for _ in range(2):
        assert (await admin.delete(WEBHOOK)).json == {"success": True}
    await admin.subscribe("app", ETHEREUM)

    assert (await admin.get("/admin/projects/app")).json["webhook"] is None
    await admin.put(WEBHOOK, {"url": receiver.url("/kept")})
    await admin.delete(f"/admin/projects/app/subscribers/{ETHEREUM}")
    await receiver.got(1)
    assert [got.path for got in receiver.requests] == ["/kept"]


@each_row(
    "fields",
    [
        {},
        {"url": None},
        {"url": 7},
        {"url": ""},
        {"url": "app.example/hook"},
        {"url": "ftp://app.example"},
        {"url": "https://"},
        {"url": "https://app.example/é"},
        {"url": "https://app.example/" + "x" * 2048},
    ],
    empties=True,
)
async def test_webhook_url_other_than_http_is_refused(admin: AdminClient, fields: dict[str, Any]) -> None:
    await admin.create("app")

    problem = (await admin.put(WEBHOOK, fields)).problem(400)

    assert pointers(problem) == ["#/url"]
    assert (await admin.get("/admin/projects/app")).json["webhook"] is None
