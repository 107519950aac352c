"""The outbox over the admin API: listed by state, shown without secrets, sent again, dropped."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge_server.assembly.command_line import operations
from bridge_server.outbox.delivery import DELAYS_SECONDS
from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.outbox.store import enqueue
from tests.support.admin_client import ADMIN_TOKEN, ETHEREUM, AdminClient, plain_account
from tests.support.asking import ask
from tests.support.eventually import eventually
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.support.webhook_receiver import WebhookReceiver, hang, status

OUTBOX = "/admin/outbox"
SECRET = "whsec_" + "A" * 32


@dataclass(frozen=True, slots=True)
class Desk:
    """An operator, and the receiver of the webhooks that his server owes."""

    admin: AdminClient
    receiver: WebhookReceiver

    @property
    def destination(self) -> str:
        return f"http://127.0.0.1:{self.receiver.port}"

    async def owe(self, count: int = 1) -> None:
        """Owe the webhook of a project so many messages."""
        await self.admin.create("app", "news")
        await self.admin.put("/admin/projects/app/webhook", {"url": self.receiver.url()})
        for number in range(count):
            await self.admin.subscribe("app", plain_account(number))

    async def listed(self, query: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.admin.get(f"{OUTBOX}{query}")).json["messages"]
        return found

    async def come_to(self, state: str, count: int = 1, attempts: int | None = None) -> list[dict[str, Any]]:
        """The messages in this state, once they are so many, with so many attempts."""
        found: list[dict[str, Any]] = []

        async def enough() -> bool:
            found[:] = await self.listed(f"?state={state}")
            return len(found) == count and all(attempts in (None, each["attempts"]) for each in found)

        await eventually(enough)
        return found

    async def die(self, count: int = 1) -> list[dict[str, Any]]:
        """Owe messages and have them fail until they are given up."""
        self.receiver.otherwise = status(500)
        await self.owe(count)
        for attempts, seconds in enumerate(DELAYS_SECONDS, 1):
            await self.come_to("waiting", count, attempts)
            self.admin.clock.advance(seconds * 1.3)
        return await self.come_to("dead", count)

    async def gone(self) -> None:
        async def none() -> bool:
            return await self.listed() == []

        await eventually(none)


@pytest.fixture
async def desk(tmp_path: Path, receiver: WebhookReceiver) -> AsyncIterator[Desk]:
    """The server looks every few milliseconds at what has become due."""
    settings: dict[str, Any] = {"allow_private_webhooks": True, "webhook_secret": SECRET}
    async with running_server(tmp_path / "data", admin_token=ADMIN_TOKEN, **settings) as server:
        yield Desk(AdminClient(server), receiver)


async def test_a_message_that_failed_waits_and_says_why(desk: Desk) -> None:
    desk.receiver.otherwise = status(503)
    await desk.owe()

    [found] = await desk.come_to("waiting")

    assert (found["purpose"], found["subject"]) == ("project-event", "app")
    assert (found["destination"], found["attempts"], found["status"]) == (desk.destination, 1, 503)
    assert found["error"] == "the receiver answered 503"
    assert found["next_attempt_at"] > found["created_at"]
    assert await desk.listed("?state=due") == await desk.listed("?state=dead") == []
    assert (
        await desk.listed("?purpose=device") == await desk.listed("?destination=https://a.example:443") == []
    )
    assert await desk.listed(f"?purpose=project-event&destination={desk.destination}") == [found]


async def test_an_event_of_a_project_is_shown_with_its_body_and_no_secret(desk: Desk) -> None:
    desk.receiver.otherwise = status(500)
    await desk.owe()
    [found] = await desk.come_to("waiting")

    answer = await desk.admin.get(f"{OUTBOX}/{found['id']}")

    shown = answer.json
    assert {**found, **shown} == shown
    assert shown["body"]["event"] == "subscribed"
    assert shown["headers"]["webhook-id"] == shown["message_id"]
    assert shown["headers"]["webhook-signature"] == "(set)"
    assert b"whsec_" not in answer.body
    assert b"/hook" not in answer.body


async def test_a_webhook_of_a_session_shows_neither_body_nor_whole_ids(desk: Desk) -> None:
    desk.receiver.otherwise = status(500)
    server = desk.admin.server
    session_id = await server.open_session()
    push = {"type": "fcm", "token": "the-token", "webhook": desk.receiver.url("/secret-path")}
    body = orjson.dumps({"encryptionPayload": "p", "push": push})
    assert (await ask(server, "PUT", f"/session/{session_id}", body)).status == 200
    call_id = await server.request_call(session_id)
    [found] = await desk.come_to("waiting")

    answer = await desk.admin.get(f"{OUTBOX}/{found['id']}")

    assert answer.json["purpose"] == "call-webhook"
    assert answer.json["subject"] == session_id[:8] + "…"
    assert (answer.json["body"], answer.json["body_bytes"] > 0) == (None, True)
    for secret in (session_id, call_id, "the-token", "secret-path"):
        assert secret.encode() not in answer.body


async def test_retrying_sends_a_message_before_its_time(desk: Desk) -> None:
    desk.receiver.script.append(status(500))
    await desk.owe()
    [found] = await desk.come_to("waiting")

    assert (await desk.admin.post(f"{OUTBOX}/{found['id']}/retry")).json["state"] == "due"

    await desk.gone()
    assert len(desk.receiver.requests) == 2
    (await desk.admin.post(f"{OUTBOX}/{found['id']}/retry")).problem(404)


async def test_a_dead_letter_that_two_operators_retry_is_put_back_once(desk: Desk) -> None:
    [found] = await desk.die()
    before = len(desk.receiver.requests)
    desk.receiver.otherwise = hang

    answers = await asyncio.gather(*(desk.admin.post(f"{OUTBOX}/{found['id']}/retry") for _ in range(5)))
    await desk.receiver.got(before + 1)
    assert {answer.status for answer in answers} <= {200, 409}
    assert 200 in {answer.status for answer in answers}
    desk.receiver.released.set()

    await desk.gone()
    assert len(desk.receiver.requests) == before + 1


async def test_a_dead_one_begins_its_attempts_anew(desk: Desk) -> None:
    [found] = await desk.die()

    await desk.admin.post(f"{OUTBOX}/{found['id']}/retry")

    [again] = await desk.come_to("waiting", attempts=2)
    assert (again["id"], again["died_at"]) == (found["id"], None)


async def test_a_message_that_is_being_sent_is_left_alone(desk: Desk) -> None:
    desk.receiver.otherwise = hang
    await desk.owe()
    await desk.receiver.got(1)
    [found] = await desk.listed()

    for answer in (
        await desk.admin.post(f"{OUTBOX}/{found['id']}/retry"),
        await desk.admin.delete(f"{OUTBOX}/{found['id']}"),
    ):
        assert "is being sent" in answer.problem(409)["detail"]

    desk.receiver.released.set()
    await desk.gone()
    assert len(desk.receiver.requests) == 1


async def test_a_dropped_message_is_not_sent_even_if_it_was_next(desk: Desk) -> None:
    desk.receiver.otherwise = hang
    await desk.owe(8)
    await desk.receiver.got(4)
    newest = await desk.listed()

    dropped = [each["id"] for each in newest[:4]]
    for each in dropped:
        assert (await desk.admin.delete(f"{OUTBOX}/{each}")).json == {"success": True}
    desk.receiver.released.set()

    await desk.gone()
    received = {got.headers["webhook-id"] for got in desk.receiver.requests}
    assert len(received) == len(desk.receiver.requests) == 4
    assert not received & {each.partition("-")[2] for each in dropped}
    for each in dropped:
        (await desk.admin.delete(f"{OUTBOX}/{each}")).problem(404)


async def test_two_that_drop_one_message_drop_it_once(desk: Desk) -> None:
    [found] = await desk.die()

    answers = await asyncio.gather(*(desk.admin.delete(f"{OUTBOX}/{found['id']}") for _ in range(2)))

    assert sorted(answer.status for answer in answers) == [200, 404]
    assert await desk.listed() == []


async def test_all_dead_ones_of_a_destination_are_retried_or_dropped(desk: Desk) -> None:
    await desk.die(3)
    other = {"destination": "https://app.example:443"}
    own = {"destination": desk.destination}

    assert (await desk.admin.post(f"{OUTBOX}/retry-dead", other)).json == {"messages": 0}
    assert (await desk.admin.post(f"{OUTBOX}/drop-dead", other)).json == {"messages": 0}
    found = await asyncio.gather(*(desk.admin.post(f"{OUTBOX}/retry-dead", own) for _ in range(2)))
    assert sum(answer.json["messages"] for answer in found) == 3
    await desk.come_to("waiting", 3, attempts=2)

    for attempts, seconds in enumerate(DELAYS_SECONDS[1:], 2):
        await desk.come_to("waiting", 3, attempts)
        desk.admin.clock.advance(seconds * 1.3)
    await desk.come_to("dead", 3)
    assert (await desk.admin.post(f"{OUTBOX}/drop-dead", own)).json == {"messages": 3}
    assert await desk.listed() == []


async def test_dead_ones_that_are_retried_are_delivered_once_each(desk: Desk) -> None:
    await desk.die(3)
    before = len(desk.receiver.requests)
    desk.receiver.otherwise = status(200)

    await desk.admin.post(f"{OUTBOX}/retry-dead", {"destination": desk.destination})

    await desk.gone()
    ids = [got.headers["webhook-id"] for got in desk.receiver.requests[before:]]
    assert len(ids) == len(set(ids)) == 3


@pytest.mark.parametrize("state", ["", "&state=waiting", "&state=dead"])
async def test_pages_have_every_message_once_newest_first(desk: Desk, state: str) -> None:
    if state == "&state=dead":
        await desk.die(5)
    else:
        desk.receiver.otherwise = status(500)
        await desk.owe(5)
        await desk.come_to("waiting", 5, 1)
    whole = await desk.listed(f"?limit=10{state}")

    pages: list[Any] = []
    after: str | None = ""
    while after is not None:
        page = (await desk.admin.get(f"{OUTBOX}?limit=2{state}&after={after}")).json
        pages.append(page["messages"])
        after = page["next"]

    assert [len(page) for page in pages] == [2, 2, 1]
    assert [each for page in pages for each in page] == whole
    rows = [int(each["id"].partition("-")[0]) for each in whole]
    assert state == "&state=dead" or rows == sorted(rows, reverse=True)


@each_row("query", ["state=sent", "after=x", "after=1-", "after=1-2-3", "limit=0"])
async def test_a_query_that_means_nothing_is_refused(desk: Desk, query: str) -> None:
    (await desk.admin.get(f"{OUTBOX}?{query}")).problem(400)


@each_row("fields", [{}, {"destination": ""}, {"destination": 1}, {"destination": None}])
async def test_dead_ones_of_no_destination_are_refused(desk: Desk, fields: dict[str, Any]) -> None:
    (await desk.admin.post(f"{OUTBOX}/drop-dead", fields)).problem(400)


async def test_the_figures_follow_what_the_operator_does(desk: Desk) -> None:
    first, *_ = await desk.die(3)
    await desk.admin.delete(f"{OUTBOX}/{first['id']}")
    await desk.admin.post(f"{OUTBOX}/drop-dead", {"destination": desk.destination})
    desk.receiver.otherwise = status(500)
    await desk.admin.subscribe("app", ETHEREUM)

    assert len(await desk.come_to("waiting")) == 1
    assert len(await desk.listed()) == 1


@pytest.mark.parametrize("purpose", ["push", "device", "call-webhook", "topic-webhook", "unknown"])
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
