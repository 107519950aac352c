"""What a project's backend hears of its subscriptions: every change, signed with the project's own secret."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from bridge_server.kernel.clock import SystemClock
from tests.support.clock import ManualClock
from tests.support.project import NEWS, OFFERS, App, accounts, create_app, look, opened_app
from tests.support.server import running_server
from tests.support.webhook_receiver import WebhookReceiver

A, B = accounts(2)


async def heard(receiver: WebhookReceiver, count: int) -> list[dict[str, Any]]:
    """So many events, and no more."""
    await receiver.got(count)
    assert len(receiver.requests) == count
    return [orjson.loads(request.body) for request in receiver.requests]


async def test_webhook_gets_every_change_with_the_new_types(app: App, receiver: WebhookReceiver) -> None:
    await app.operator.projects.set_webhook(app.project_id, receiver.url())

    await app.subscribe(A)
    await app.subscribe(A, types=[NEWS])
    app.server.clock.advance(1)
    await app.unsubscribe(A)

    events = sorted(
        await heard(receiver, 3), key=lambda event: len(event["notification_types"]), reverse=True
    )
    about = {"project_id": app.project_id, "account": A}
    assert events == [
        {
            **about,
            "event": "subscribed",
            "number": 1,
            "notification_types": [NEWS, OFFERS],
            "at": "2027-01-15T08:00:00.000Z",
        },
        {
            **about,
            "event": "updated",
            "number": 2,
            "notification_types": [NEWS],
            "at": "2027-01-15T08:00:00.000Z",
        },
        {
            **about,
            "event": "unsubscribed",
            "number": 3,
            "notification_types": [],
            "at": "2027-01-15T08:00:01.000Z",
        },
    ]
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 3


async def test_change_without_effect_sends_no_webhook(app: App, receiver: WebhookReceiver) -> None:
    await app.subscribe(A)
    await app.subscribe(B, types=[NEWS, OFFERS])
    await app.operator.projects.set_webhook(app.project_id, receiver.url())

    await app.subscribe(A, types=[OFFERS, NEWS])
    await app.subscribe(B)
    await app.subscribe(A.replace("eip155:1:", "eip155:137:"))

    assert look(app.server, "SELECT count(*) FROM outbox") == [(0,)]
    await app.unsubscribe(B)
    assert [event["event"] for event in await heard(receiver, 1)] == ["unsubscribed"]


async def test_project_without_a_webhook_sends_none(
    app: App, other_app: App, receiver: WebhookReceiver
) -> None:
    await other_app.operator.projects.set_webhook(other_app.project_id, receiver.url())
    await app.subscribe(A)
    await other_app.operator.projects.remove_webhook(other_app.project_id)
    await other_app.subscribe(A)

    assert look(app.server, "SELECT count(*) FROM outbox") == [(0,)]
    assert receiver.requests == []


async def test_each_project_signs_with_a_secret_of_its_own(tmp_path: Path, receiver: WebhookReceiver) -> None:
    now = ManualClock(SystemClock().now_ms())  # receivers refuse what was signed at another time
    async with (
        running_server(tmp_path, now, allow_private_webhooks=True) as server,
        opened_app(server) as app,
    ):
        other_app = await create_app(server, app.operator, "Other")
        mine = await app.operator.projects.set_webhook(app.project_id, receiver.url("/mine"))
        theirs = await app.operator.projects.set_webhook(other_app.project_id, receiver.url("/theirs"))

        await app.subscribe(A)
        await other_app.subscribe(A)
        await receiver.got(2)

    requests = {request.path: request for request in receiver.requests}
    told = {path: (request.body, dict(request.headers.items())) for path, request in requests.items()}
    assert Webhook(mine.signing_secret).verify(*told["/mine"])["project_id"] == app.project_id
    assert Webhook(theirs.signing_secret).verify(*told["/theirs"])["project_id"] == other_app.project_id
    with pytest.raises(WebhookVerificationError):
        Webhook(theirs.signing_secret).verify(*told["/mine"])


async def test_an_import_tells_of_each_account(app: App, receiver: WebhookReceiver) -> None:
    everybody = accounts(100)
    await app.operator.projects.set_webhook(app.project_id, receiver.url())

    await app.subscribe(*everybody)

    events = await heard(receiver, 100)
    assert sorted(event["account"] for event in events) == everybody
