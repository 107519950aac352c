"""The outbox: messages by state without their secrets, attempts, and tests of webhooks and pushes."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge_server.assembly.command_line import operations
from bridge_server.kernel.clock import SystemClock
from bridge_server.outbox.channels import MOST_ATTEMPTS, AttemptLog
from bridge_server.outbox.delivery import DELAYS_SECONDS
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.outbox.sender import WebhookSigner
from bridge_server.outbox.store import enqueue
from tests.support.admin_client import ADMIN_TOKEN, AdminClient, plain_account
from tests.support.asking import ask, pointers
from tests.support.push_client import TOPIC, PushClient
from tests.support.server import running_server
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver, hang, reset, status

OUTBOX, ATTEMPTS = "/admin/outbox", "/admin/outbox/attempts"
SECRET = "whsec_" + "A" * 32
TEST = "/admin/webhooks/test"


@dataclass(frozen=True, slots=True)
class Desk:
    """An operator, and the receiver of the webhooks that his server owes."""

    admin: AdminClient
    receiver: WebhookReceiver

    @property
    def destination(self) -> str:
        return f"http://127.0.0.1:{self.receiver.port}"

    async def owe(self, count: int = 1, path: str = "/hook") -> None:
        """Owe the webhook of a project so many messages."""
        await self.admin.create("app", "news")
        await self.admin.put("/admin/projects/app/webhook", {"url": self.receiver.url(path)})
        for number in range(count):
            await self.admin.subscribe("app", plain_account(number))

    async def listed(self, query: str = "", path: str = OUTBOX) -> list[dict[str, Any]]:
        """The messages, or the attempts."""
        answer = (await self.admin.get(f"{path}{query}")).json
        found: list[dict[str, Any]] = answer["messages" if path == OUTBOX else "attempts"]
        return found

    async def come_to(
        self, count: int, query: str = "", path: str = OUTBOX, attempts: int | None = None
    ) -> list[dict[str, Any]]:
        """The list, once it has `count` messages, each with `attempts` attempts."""
        found: list[dict[str, Any]] = []

        async def enough() -> bool:
            found[:] = await self.listed(query, path)
            return len(found) == count and all(attempts in (None, each.get("attempts")) for each in found)

        await eventually(enough)
        return found

    async def die(self, count: int, first: int = 1) -> list[dict[str, Any]]:
        """Have messages fail from this attempt on until they are given up."""
        for attempts, seconds in enumerate(DELAYS_SECONDS[first - 1 :], first):
            await self.come_to(count, "?state=waiting", attempts=attempts)
            self.admin.clock.advance(seconds * 1.3)
        return await self.come_to(count, "?state=dead")


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """Services for pushes that take everything, and webhooks on this machine."""
    return {
        "admin_token": ADMIN_TOKEN, "allow_private_webhooks": True, "push_log": True, "webhook_secret": SECRET
    }  # fmt: skip


@pytest.fixture
def desk(admin: AdminClient, receiver: WebhookReceiver) -> Desk:
    return Desk(admin, receiver)


async def test_a_message_that_failed_says_why_and_is_shown_with_its_body_and_no_secret(desk: Desk) -> None:
    desk.receiver.otherwise = status(503)
    await desk.owe()
    [found] = await desk.come_to(1, "?state=waiting")

    answer = await desk.admin.get(f"{OUTBOX}/{found['id']}")

    shown = answer.json
    assert {**found, **shown} == shown
    assert shown["body"]["event"] == "subscribed"
    assert shown["headers"]["webhook-id"] == shown["message_id"]
    assert shown["headers"]["webhook-signature"] == "(set)"
    assert not [private for private in (b"whsec_", b"/hook") if private in answer.body]
    expected = {
        "purpose": "project-event", "subject": "app", "destination": desk.destination, "attempts": 1,
        "status": 503, "error": "the receiver answered 503",
    }  # fmt: skip
    assert found == {**found, **expected}
    assert found["next_attempt_at"] > found["created_at"]
    for query in ("state=due", "state=dead", "purpose=device", "destination=https://a.example:443",
                  "kind=push", "kind=push&state=waiting"):  # fmt: skip
        assert await desk.listed(f"?{query}") == [], query
    for query in (f"purpose=project-event&destination={desk.destination}", "kind=webhook",
                  "kind=webhook&state=waiting"):  # fmt: skip
        assert await desk.listed(f"?{query}") == [found], query


async def test_a_webhook_of_a_session_shows_neither_body_nor_whole_ids(desk: Desk) -> None:
    desk.receiver.otherwise = status(500)
    server = desk.admin.server
    session_id = await server.open_session()
    push = {"type": "fcm", "token": "the-token", "webhook": desk.receiver.url("/secret-path")}
    body = orjson.dumps({"encryptionPayload": "p", "push": push})
    assert (await ask(server, "PUT", f"/session/{session_id}", body)).status == 200
    call_id = await server.request_call(session_id)
    [found] = await desk.come_to(1, "?state=waiting")

    answer = await desk.admin.get(f"{OUTBOX}/{found['id']}")

    shown = answer.json
    assert (shown["purpose"], shown["subject"]) == ("call-webhook", session_id[:8] + "…")
    assert (shown["body"], shown["body_bytes"] > 0) == (None, True)
    for secret in (session_id, call_id, "the-token", "secret-path"):
        assert secret.encode() not in answer.body


async def test_a_message_being_sent_is_left_alone_and_a_dropped_one_never_sent(desk: Desk) -> None:
    desk.receiver.otherwise = hang
    await desk.owe(8)
    await desk.receiver.got(4)
    paths = [f"{OUTBOX}/{each['id']}" for each in await desk.listed()]  # newest first

    for path in paths[4:]:
        for answer in (await desk.admin.post(f"{path}/retry"), await desk.admin.delete(path)):
            assert "is being sent" in answer.problem(409)["detail"]
    for path in paths[:4]:
        assert (await desk.admin.delete(path)).json == {"success": True}
    desk.receiver.released.set()

    await desk.come_to(0)
    received = {got.headers["webhook-id"] for got in desk.receiver.requests}
    assert received == {path.partition("-")[2] for path in paths[4:]}
    assert len(desk.receiver.requests) == 4
    for path in paths[:4]:
        (await desk.admin.delete(path)).problem(404)


@pytest.mark.own_server
async def test_all_dead_ones_of_a_destination_are_retried_or_dropped_once_each(desk: Desk) -> None:
    desk.receiver.otherwise = status(500)
    await desk.owe(3)
    dead = await desk.die(3)
    assert await desk.admin.pages(f"{OUTBOX}?state=dead", "messages", 2) == [dead[:2], dead[2:]]
    own = {"destination": desk.destination}

    for action in ("retry-dead", "drop-dead"):
        other = await desk.admin.post(f"{OUTBOX}/{action}", {"destination": "https://app.example:443"})
        assert other.json == {"messages": 0}
    found = await asyncio.gather(*(desk.admin.post(f"{OUTBOX}/retry-dead", own) for _ in range(2)))
    assert sum(answer.json["messages"] for answer in found) == 3
    again = await desk.come_to(3, "?state=waiting", attempts=2)  # their attempts have begun anew
    assert [each["died_at"] for each in again] == [None] * 3

    first, *_ = await desk.die(3, first=2)
    answers = await asyncio.gather(*(desk.admin.delete(f"{OUTBOX}/{first['id']}") for _ in range(2)))
    assert sorted(answer.status for answer in answers) == [200, 404]
    assert (await desk.admin.post(f"{OUTBOX}/drop-dead", own)).json == {"messages": 2}
    assert await desk.listed() == []
    await desk.admin.subscribe("app", plain_account(9))
    assert len(await desk.come_to(1, "?state=waiting")) == len(await desk.listed())


@pytest.mark.parametrize("purpose", ["push", "device", "unknown"])
async def test_no_message_shows_its_token_its_texts_or_its_secret(desk: Desk, purpose: str) -> None:
    text, secret = b'{"title":"private title","topic":"the-whole-topic"}', "whsec_" + "B" * 32
    message = OutgoingMessage(
        "m-1", "fcm:the-device-token", text, Purpose(purpose), signing_secret=secret, subject="the-subject"
    )
    async with operations(desk.admin.server.settings) as opened:
        await opened.foundation.database.transaction(lambda: enqueue(message, 0))
    [found] = await desk.listed()

    answer = await desk.admin.get(f"{OUTBOX}/{found['id']}")

    shown = answer.json
    assert (shown["destination"], shown["body"], shown["body_bytes"]) == ("fcm", None, len(text))
    assert shown["subject"] == ("the-subject" if purpose == "device" else "the-subj…")
    for private in (b"token", b"private", b"whole-topic", b"whsec"):
        assert private not in answer.body


@pytest.mark.own_server
async def test_each_attempt_is_listed_with_its_outcome_and_no_content(desk: Desk) -> None:
    desk.receiver.script += [status(500), status(200)]
    await desk.owe(path="/secret-path")
    [failed] = await desk.come_to(1, path=ATTEMPTS)
    [message] = await desk.listed()
    path = f"{OUTBOX}/{message['id']}"
    whole = (await desk.admin.get(path)).json

    async def is_retried() -> bool:  # refused while the first attempt is being written down
        return (await desk.admin.post(f"{path}/retry")).status == 200

    await eventually(is_retried)

    delivered, again = await desk.come_to(2, path=ATTEMPTS)
    await desk.come_to(0)
    (await desk.admin.post(f"{path}/retry")).problem(404)

    assert whole["last_attempts"] == [failed] == [again]
    kind = {"channel": "webhook", "purpose": "project-event", "subject": "app"}
    outcome = {"outcome": "failed", "status": 500, "failure": "the receiver answered 500"}
    assert failed == {**failed, **kind, **outcome}
    assert delivered == {**delivered, **kind, "outcome": "delivered", "status": 200, "failure": None}
    answer = await desk.admin.get(f"{ATTEMPTS}/{failed['number']}")
    assert {**failed, **answer.json} == {**failed, "body": None}
    assert b"secret-path" not in answer.body
    outcomes = (await desk.admin.get(ATTEMPTS)).json["outcomes"]
    assert outcomes == {"webhook": {"failed": 1, "delivered": 1}}


async def test_attempts_are_filtered_and_come_page_by_page(desk: Desk) -> None:
    await desk.owe(3)
    push = PushClient(desk.admin.server)
    assert [(await push.register()).status, (await push.push()).status] == [200, 200]
    whole = await desk.come_to(4, path=ATTEMPTS)
    assert await desk.admin.pages(ATTEMPTS, "attempts", 3) == [whole[:3], whole[3:]]
    [found] = await desk.listed("?kind=push", ATTEMPTS)
    assert (found["channel"], found["purpose"], found["subject"]) == ("log", "push", TOPIC[:8] + "…")
    assert len(await desk.listed(f"?kind=webhook&destination={desk.destination}", ATTEMPTS)) == 3
    assert await desk.listed("?destination=fcm", ATTEMPTS) == []


async def test_what_means_nothing_is_refused(desk: Desk) -> None:
    for query in ("state=sent", "after=x", "after=1-", "after=1-2-3", "limit=0", "kind=letter"):
        (await desk.admin.get(f"{OUTBOX}?{query}")).problem(400)
    for query in ("kind=letter", "after=x", "limit=0"):
        (await desk.admin.get(f"{ATTEMPTS}?{query}")).problem(400)
    for number in ("1000", "x", "9" * 19):
        (await desk.admin.get(f"{ATTEMPTS}/{number}")).problem(404)
    for fields in ({}, {"destination": ""}, {"destination": 1}, {"destination": None}):
        (await desk.admin.post(f"{OUTBOX}/drop-dead", fields)).problem(400)
    for fields in ({}, {"url": "ftp://a.example"}, {"url": "nowhere"}, {"url": 1}):
        assert pointers((await desk.admin.post(TEST, fields)).problem(400)) == ["#/url"]


async def test_a_test_push_goes_to_the_client_of_the_topic(desk: Desk) -> None:
    await PushClient(desk.admin.server).register(type="webhook", token=desk.receiver.url("/device"))
    desk.receiver.script += [status(200), status(500), status(410)]
    tested = [(await desk.admin.post("/admin/pushes/test", {"topic": TOPIC})).json for _ in range(3)]
    outcomes = [(each["delivered"], each["status"]) for each in tested]
    assert outcomes == [(True, 200), (False, None), (False, None)]
    assert "500" in tested[1]["failure"]
    assert [got.path for got in desk.receiver.requests] == ["/device"] * 3
    for topic, code in ((TOPIC, 404), ("", 400)):
        (await desk.admin.post("/admin/pushes/test", {"topic": topic})).problem(code)


async def test_a_preview_is_in_the_clients_language(admin: AdminClient) -> None:
    german = (await admin.get("/admin/pushes/preview?peer_name=Shop&language=de_AT.UTF-8")).json
    hebrew = (await admin.get("/admin/pushes/preview?language=iw")).json
    text = {"title": "Shop", "body": "Neue Anfrage von Shop"}
    assert german == {**text, "language": "de", "direction": "ltr"}
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


async def test_a_receiver_gets_one_signed_test_and_answers_it(desk: Desk, tmp_path: Path) -> None:
    tested = (await desk.admin.post(TEST, {"url": desk.receiver.url("/hook?a=b")})).json

    (got,) = desk.receiver.requests
    assert (got.path, orjson.loads(got.body)["event"]) == ("/hook?a=b", "test")
    moment_ms = int(got.headers["webhook-timestamp"]) * 1000
    signed = WebhookSigner(SECRET).headers(tested["message_id"], got.body, moment_ms)
    assert {name: got.headers[name] for name in signed} == signed
    assert tested == {**tested, "delivered": True, "status": 200, "failure": None}
    assert tested["milliseconds"] >= 0

    codes = (301, 404, 410, 500)
    desk.receiver.script += [*map(status, codes), reset]
    for number, code in enumerate((*codes, None), 2):
        tested = (await desk.admin.post(TEST, {"url": desk.receiver.url()})).json
        assert (tested["delivered"], tested["status"]) == (False, code)
        assert str(code or "") in tested["failure"] != ""
        assert len(desk.receiver.requests) == number
    assert await desk.listed() == []
    async with running_server(tmp_path / "data", admin_token=ADMIN_TOKEN) as guarded:
        tested = (await AdminClient(guarded).post(TEST, {"url": desk.receiver.url()})).json
    assert (tested["delivered"], tested["status"], bool(tested["failure"])) == (False, None, True)
    assert len(desk.receiver.requests) == 6  # none at a private address
