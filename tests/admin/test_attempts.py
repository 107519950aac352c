"""The last attempts to deliver, over the admin API; and what it does with pushes."""

from typing import Any

import pytest

from bridge_server.kernel.clock import SystemClock
from bridge_server.outbox.channels import MOST_ATTEMPTS, AttemptLog
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import OutgoingMessage, Purpose
from tests.support.admin_client import ADMIN_TOKEN, AdminClient, plain_account
from tests.support.eventually import eventually
from tests.support.push_client import TOPIC, PushClient
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.support.webhook_receiver import WebhookReceiver, status

ATTEMPTS = "/admin/outbox/attempts"


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """Services for pushes that take everything, and webhooks on this machine."""
    return {"admin_token": ADMIN_TOKEN, "allow_private_webhooks": True, "push_log": True}


async def attempts(admin: AdminClient, count: int, query: str = "") -> list[dict[str, Any]]:
    """The attempts, once there are so many."""
    found: list[dict[str, Any]] = []

    async def enough() -> bool:
        found[:] = (await admin.get(f"{ATTEMPTS}{query}")).json["attempts"]
        return len(found) == count

    await eventually(enough)
    return found


async def owe(admin: AdminClient, receiver: WebhookReceiver, count: int) -> None:
    await admin.create("app", "news")
    await admin.put("/admin/projects/app/webhook", {"url": receiver.url("/secret-path")})
    for number in range(count):
        await admin.subscribe("app", plain_account(number))


@pytest.mark.own_server
@pytest.mark.own_server
async def test_each_attempt_is_listed_with_its_outcome_and_no_content(
    admin: AdminClient, receiver: WebhookReceiver
) -> None:
    receiver.script += [status(500), status(200)]
    await owe(admin, receiver, 1)
    [failed] = await attempts(admin, 1)
    [message] = (await admin.get("/admin/outbox")).json["messages"]
    whole = (await admin.get(f"/admin/outbox/{message['id']}")).json
    await admin.post(f"/admin/outbox/{message['id']}/retry")

    delivered, again = await attempts(admin, 2)

    assert again == failed
    assert whole["last_attempts"] == [failed]
    assert (failed["outcome"], failed["status"], failed["failure"]) == (
        "failed",
        500,
        "the receiver answered 500",
    )
    assert (delivered["outcome"], delivered["status"], delivered["failure"]) == ("delivered", 200, None)
    assert (delivered["channel"], delivered["purpose"], delivered["subject"]) == (
        "webhook",
        "project-event",
        "app",
    )
    answer = await admin.get(f"{ATTEMPTS}/{failed['number']}")
    assert {**failed, **answer.json} == {**failed, "body": None}
    assert b"secret-path" not in answer.body
    assert (await admin.get(ATTEMPTS)).json["outcomes"] == {"webhook": {"failed": 1, "delivered": 1}}


async def test_attempts_are_filtered_and_come_page_by_page(
    admin: AdminClient, receiver: WebhookReceiver, server: RunningServer
) -> None:
    await owe(admin, receiver, 3)
    assert (await PushClient(server).register()).status == 200
    assert (await PushClient(server).push()).status == 200
    whole = await attempts(admin, 4)

    pages: list[Any] = []
    after: str | None = ""
    while after is not None:
        page = (await admin.get(f"{ATTEMPTS}?limit=3&after={after}")).json
        pages.append(page["attempts"])
        after = page["next"]

    assert [len(page) for page in pages] == [3, 1]
    assert [each for page in pages for each in page] == whole
    [push] = await attempts(admin, 1, "?kind=push")
    assert (push["channel"], push["purpose"], push["subject"]) == ("log", "push", TOPIC[:8] + "…")
    assert len(await attempts(admin, 3, f"?kind=webhook&destination=http://127.0.0.1:{receiver.port}")) == 3
    assert await attempts(admin, 0, "?destination=fcm") == []


@each_row("query", ["kind=letter", "after=x", "limit=0"])
async def test_a_query_that_means_nothing_is_refused(admin: AdminClient, query: str) -> None:
    (await admin.get(f"{ATTEMPTS}?{query}")).problem(400)
    (await admin.get(f"/admin/outbox?{query}")).problem(400)


@each_row("number", ["1", "x", "9" * 19])
async def test_an_attempt_that_nobody_made_is_not_found(admin: AdminClient, number: str) -> None:
    (await admin.get(f"{ATTEMPTS}/{number}")).problem(404)


async def test_messages_are_listed_by_kind(admin: AdminClient, receiver: WebhookReceiver) -> None:
    receiver.otherwise = status(500)
    await owe(admin, receiver, 1)

    async def waits() -> bool:
        return bool((await admin.get("/admin/outbox?state=waiting")).json["messages"])

    await eventually(waits)
    for state in ("", "&state=waiting"):
        assert len((await admin.get(f"/admin/outbox?kind=webhook{state}")).json["messages"]) == 1
        assert (await admin.get(f"/admin/outbox?kind=push{state}")).json["messages"] == []


async def test_a_test_push_goes_to_the_client_of_the_topic(
    admin: AdminClient, server: RunningServer, receiver: WebhookReceiver
) -> None:
    await PushClient(server).register(type="webhook", token=receiver.url("/device"))
    receiver.script += [status(200), status(500), status(410)]

    answers = [(await admin.post("/admin/pushes/test", {"topic": TOPIC})).json for _ in range(3)]

    assert [each["delivered"] for each in answers] == [True, False, False]
    assert [each["status"] for each in answers] == [200, None, None]
    assert "500" in answers[1]["failure"]
    assert [got.path for got in receiver.requests] == ["/device"] * 3
    (await admin.post("/admin/pushes/test", {"topic": TOPIC})).problem(404)
    (await admin.post("/admin/pushes/test", {"topic": ""})).problem(400)


async def test_a_preview_is_in_the_clients_language(admin: AdminClient) -> None:
    german = (await admin.get("/admin/pushes/preview?peer_name=Shop&language=de_AT.UTF-8")).json
    hebrew = (await admin.get("/admin/pushes/preview?language=iw")).json

    assert german == {
        "title": "Shop", "body": "Neue Anfrage von Shop", "language": "de", "direction": "ltr",
    }  # fmt: skip
    assert (hebrew["title"], hebrew["language"], hebrew["direction"]) == (hebrew["body"], "he", "rtl")
    (await admin.get(f"/admin/pushes/preview?peer_name={'x' * 1025}")).problem(400)


def test_no_more_attempts_are_kept_than_500() -> None:
    log, message = AttemptLog(SystemClock()), OutgoingMessage("m", "fcm:token", b"{}", Purpose("push"))
    for _ in range(MOST_ATTEMPTS + 1):
        log.note(message, Outcome(Verdict.DELIVERED), 1.0)

    assert [each.number for each in log.before(None)] == list(range(MOST_ATTEMPTS + 1, 1, -1))
    assert log.find(1) is None
    assert log.outcomes == {"fcm": {"delivered": MOST_ATTEMPTS + 1}}
    assert {each.body for each in log.before(None)} == {None}
