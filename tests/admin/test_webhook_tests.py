"""A test of a webhook: one signed message, and what became of it."""

from pathlib import Path

import orjson
import pytest

from bridge_server.outbox.sender import WebhookSigner
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.problems import pointers
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.support.webhook_receiver import WebhookReceiver, reset, status

TEST = "/admin/webhooks/test"
SECRET = "whsec_" + "A" * 32


async def test_a_receiver_that_takes_it_gets_one_signed_message(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    async with running_server(
        tmp_path / "data", admin_token=ADMIN_TOKEN, allow_private_webhooks=True, webhook_secret=SECRET
    ) as server:
        tested = (await AdminClient(server).post(TEST, {"url": receiver.url("/hook?a=b")})).json

    (got,) = receiver.requests
    assert got.path == "/hook?a=b"
    assert orjson.loads(got.body)["event"] == "test"
    moment_ms = int(got.headers["webhook-timestamp"]) * 1000
    signed = WebhookSigner(SECRET).headers(tested["message_id"], got.body, moment_ms)
    assert {name: got.headers[name] for name in signed} == signed
    assert tested == {**tested, "delivered": True, "status": 200, "failure": None}
    assert tested["milliseconds"] >= 0


@pytest.mark.parametrize("code", [301, 404, 410, 500])
async def test_a_receiver_that_refuses_is_answered_with_its_status_and_asked_once(
    admin: AdminClient, receiver: WebhookReceiver, code: int
) -> None:
    receiver.otherwise = status(code)

    tested = (await admin.post(TEST, {"url": receiver.url()})).json

    assert (tested["delivered"], tested["status"]) == (False, code)
    assert str(code) in tested["failure"]
    assert len(receiver.requests) == 1
    assert (await admin.get("/admin/outbox")).json["messages"] == []


async def test_a_receiver_that_breaks_off_is_a_failure_without_a_status(
    admin: AdminClient, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = reset

    tested = (await admin.post(TEST, {"url": receiver.url()})).json

    assert (tested["delivered"], tested["status"]) == (False, None)
    assert tested["failure"]


async def test_no_private_address_is_connected_to(tmp_path: Path, receiver: WebhookReceiver) -> None:
    async with running_server(tmp_path / "data", admin_token=ADMIN_TOKEN) as server:
        tested = (await AdminClient(server).post(TEST, {"url": receiver.url()})).json

    assert (tested["delivered"], tested["status"]) == (False, None)
    assert tested["failure"]
    assert receiver.requests == []


@each_row("fields", [{}, {"url": "ftp://a.example"}, {"url": "nowhere"}, {"url": 1}])
async def test_a_text_that_is_no_url_is_refused(admin: AdminClient, fields: dict[str, object]) -> None:
    assert pointers((await admin.post(TEST, fields)).problem(400)) == ["#/url"]
