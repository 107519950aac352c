"""Subscribers: looking up, listing, and what a project's backend hears of changes.

White-box: no client can make a listing fail between two pages.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import pytest_asyncio
from standardwebhooks import Webhook, WebhookVerificationError

from bridge_server.kernel.clock import SystemClock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.notify.store import NotifyStore
from bridge_server.projects.models import Project
from tests.support.asking import raw_connection, spell
from tests.support.clock import ManualClock
from tests.support.engines import settings_over
from tests.support.needs import slow
from tests.support.project import (
    NEWS,
    OFFERS,
    App,
    account,
    accounts,
    create_app,
    look,
    opened_app,
    operator_beside,
    subscribe,
    subscribe_crowd,
)
from tests.support.server import running_server, server_process
from tests.support.webhook_receiver import WebhookReceiver

A, B, C = accounts(3)


async def test_types_come_in_the_order_of_the_project_and_may_be_none(app: App) -> None:
    await app.operator.projects.add_type(app.project_id, "First by name", "aaa")
    await app.subscribe(A, types=["aaa", OFFERS, NEWS])
    await app.subscribe(B, types=["aaa", NEWS])
    await app.subscribe(C, types=[])

    assert (await app.lookup([B, A, C])).json == {
        B: {"notification_types": [NEWS, "aaa"]},
        A: {"notification_types": [NEWS, OFFERS, "aaa"]},
        C: {"notification_types": []},
    }
    assert (await app.listing()).json == [A, B, C]


async def test_a_removed_type_is_taken_away_and_a_new_one_given_to_subscribers_of_all(app: App) -> None:
    await app.subscribe(A)
    await app.subscribe(B, types=[NEWS, OFFERS])

    await app.operator.projects.remove_type(app.project_id, NEWS)
    await app.operator.projects.add_type(app.project_id, "More", "more")

    of_b = {B: {"notification_types": [OFFERS]}}
    assert (await app.lookup([A, B])).json == {A: {"notification_types": [OFFERS, "more"]}, **of_b}
    await app.operator.projects.add_type(app.project_id, "News again", NEWS)
    assert (await app.lookup([B])).json == of_b
    assert (await app.notify([B])).json["failed"] == [{"account": B, "reason": "type_not_subscribed"}]
    await app.subscribe(B)
    assert (await app.notify([B])).json["sent"] == [B]


async def test_no_page_of_the_listing_is_lost_or_repeated(app: App) -> None:
    for count in (0, 1, 999, 1_000, 1_001, 2_000):
        everybody = accounts(count)
        await app.subscribe(*everybody)
        assert (await app.listing()).body == orjson.dumps(everybody), count


async def test_the_listing_spells_accounts_with_their_checksum_and_their_first_chain(app: App) -> None:
    lower = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"
    await app.subscribe(f"eip155:001:{lower}", "cosmos:cosmoshub-3:Xy", "abc:a:b")
    await app.subscribe(f"eip155:137:{lower}")

    assert (await app.listing()).json == [
        "abc:a:b",
        "cosmos:cosmoshub-3:Xy",
        "eip155:1:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    ]


async def test_subscribing_and_leaving_show_at_the_very_next_request(app: App) -> None:
    for spelled in accounts(20):
        await app.subscribe(spelled)
        assert list((await app.lookup([spelled])).json) == [spelled]
        await app.unsubscribe(spelled)
        assert (await app.lookup([spelled])).body == b"{}"
        assert (await app.listing()).json == []


@pytest.mark.parametrize("meanwhile", ["the database fails", "the project is deleted"])
async def test_a_broken_listing_breaks_off(app: App, monkeypatch: pytest.MonkeyPatch, meanwhile: str) -> None:
    await app.subscribe(*accounts(1_500))
    read_page = NotifyStore.listing_page

    async def break_down(store: NotifyStore, project: Project, after: str, limit: int) -> Any:
        if after and meanwhile == "the database fails":
            raise UnavailableError("The database is locked.")
        if after:
            await app.operator.projects.delete(app.project_id)
        return await read_page(store, project, after, limit)

    with monkeypatch.context() as patch:
        patch.setattr(NotifyStore, "listing_page", break_down)
        with pytest.raises(aiohttp.ClientError):
            await app.listing()

    if meanwhile == "the database fails":
        assert (await app.listing()).json == accounts(1_500)


CROWD, MULTITUDE = 200_000, 500_000

in_module = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crowded_app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """A project with so many subscribers that no buffer on the way holds their listing."""
    async with running_server(tmp_path_factory.mktemp("crowd")) as server, opened_app(server) as app:
        await app.subscribe(account(0))
        subscribe_crowd(server.settings, CROWD)
        yield app


@in_module
async def test_client_that_leaves_in_the_middle_harms_no_other(crowded_app: App) -> None:
    authorization = f"Authorization: Bearer {crowded_app.secret}".encode()

    async with raw_connection(crowded_app.server) as connection:
        await connection.send(spell("GET", crowded_app.paths["listing"], b"", authorization))
        head = await connection.reader.readexactly(20_000)
        connection.writer.transport.abort()

    assert head.startswith(b"HTTP/1.1 200 OK")
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*(crowded_app.lookup([account(1)]) for _ in range(50)))
    assert {answer.status for answer in answers} == {200}


@in_module
async def test_lasting_subscriber_is_listed_once_while_others_come_and_go(crowded_app: App) -> None:
    stays = [account(number) for number in range(0, CROWD + 1, 2)]
    leave = [account(number) for number in range(CROWD - 1, CROWD - 1_001, -2)]
    headers = {"Authorization": f"Bearer {crowded_app.secret}"}

    async with crowded_app.server.client.get(
        crowded_app.server.url + crowded_app.paths["listing"], headers=headers
    ) as response:
        first = await response.content.readexactly(10_000)
        await crowded_app.unsubscribe(*leave)
        await crowded_app.subscribe("abc:x:before", "eip155:2:0x" + "1" * 40)
        listed = orjson.loads(first + await response.read())

    assert listed == sorted(set(listed))
    assert set(stays) <= set(listed)
    assert "abc:x:before" not in listed
    assert "eip155:2:0x" + "1" * 40 in listed
    assert not set(leave) & set(listed)


@slow
async def test_half_a_million_subscribers_are_listed_with_flat_memory(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with server_process(data_dir) as server:
        async with operator_beside(settings_over(data_dir), SystemClock()) as operator:
            project, secret = await operator.projects.create("App")
            await subscribe(operator, project.project_id, [account(0)])
        subscribe_crowd(settings_over(data_dir), MULTITUDE)
        url = f"{server.url}/{project.project_id}/subscribers"
        headers = {"Authorization": f"Bearer {secret.secret}"}
        async with aiohttp.ClientSession() as client:
            async with client.get(f"{server.url}/hello") as response:
                assert response.status == 200
            before = peak_bytes(server.process.pid)

            async with client.get(url, headers=headers) as response:
                body = await response.read()
                assert response.status == 200

        assert peak_bytes(server.process.pid) - before < 16 * 2**20
    assert orjson.loads(body) == [account(number) for number in range(MULTITUDE + 1)]


def peak_bytes(pid: int) -> int:
    """The most memory that the process has held at once (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


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
    at, later = "2027-01-15T08:00:00.000Z", "2027-01-15T08:00:01.000Z"
    assert events == [
        {**about, "event": "subscribed", "number": 1, "notification_types": [NEWS, OFFERS], "at": at},
        {**about, "event": "updated", "number": 2, "notification_types": [NEWS], "at": at},
        {**about, "event": "unsubscribed", "number": 3, "notification_types": [], "at": later},
    ]
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 3


async def test_changes_that_send_no_webhook(app: App, other_app: App, receiver: WebhookReceiver) -> None:
    projects = app.operator.projects
    await projects.set_webhook(other_app.project_id, receiver.url())
    await app.subscribe(A)
    await app.subscribe(B, types=[NEWS, OFFERS])
    await projects.remove_webhook(other_app.project_id)
    await other_app.subscribe(A)

    await projects.set_webhook(app.project_id, receiver.url())
    await app.subscribe(A, types=[OFFERS, NEWS])
    await app.subscribe(B)
    await app.subscribe(A.replace("eip155:1:", "eip155:137:"))

    assert look(app.server, "SELECT count(*) FROM outbox") == [(0,)]
    await app.unsubscribe(B)
    assert [event["event"] for event in await heard(receiver, 1)] == ["unsubscribed"]


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
