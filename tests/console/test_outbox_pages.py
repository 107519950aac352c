"""The pages of webhooks and pushes: what is owed, sent now, dropped, tested, previewed."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from bridge_server.outbox.delivery import DELAYS_SECONDS
from tests.console.test_strangers_texts import HOSTILE, check_only_text
from tests.support.console_client import ConsoleClient
from tests.support.push_client import TOPIC, PushClient
from tests.support.server import running_server
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver, status

WEBHOOKS, PUSHES = "/console/webhooks", "/console/pushes"
ACCOUNT = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"


@dataclass(frozen=True, slots=True)
class Desk:
    """An operator's browser, and the receiver of the webhooks that the server owes."""

    console: ConsoleClient
    receiver: WebhookReceiver

    @property
    def destination(self) -> str:
        return f"http://127.0.0.1:{self.receiver.port}"

    async def owe(self) -> None:
        """Owe the webhook of a project a message."""
        path = "/console/projects"
        await self.console.send(path, "create", name="App", project_id="app")
        await self.console.send(f"{path}/app", "set-webhook", url=self.receiver.url("/secret-path"))
        await self.console.send(f"{path}/app", "subscribe", account=ACCOUNT)

    async def come_to(self, state: str, attempts: int) -> str:
        """The path of the one message, once it is in this state after so many attempts."""
        found: list[str] = []

        async def there() -> bool:
            page = await self.console.page(f"{WEBHOOKS}?state={state}")
            found[:] = re.findall(rf'href="({WEBHOOKS}/\d+-[^"]+)"', page)
            return bool(found) and f'data-label="Attempts" class="number more">{attempts}<' in page

        await eventually(there)
        return found[0]

    async def fail(self) -> str:
        """Owe a message whose first attempt has failed; returns its path."""
        self.receiver.otherwise = status(500)
        await self.owe()
        return await self.come_to("waiting", 1)

    async def die(self) -> str:
        """Owe a message that is given up; returns its path."""
        await self.fail()
        for attempts, seconds in enumerate(DELAYS_SECONDS, 1):
            await self.come_to("waiting", attempts)
            self.console.server.clock.advance(seconds * 1.3)
            await self.console.sign_in()  # a sign-in has ended meanwhile
        return await self.come_to("dead", len(DELAYS_SECONDS) + 1)

    async def gone(self) -> None:
        async def none() -> bool:
            return "Nothing waits" in await self.console.page(WEBHOOKS)

        await eventually(none)


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return {"console": True, "allow_private_webhooks": True, "push_log": True}


@pytest.fixture
def desk(console: ConsoleClient, receiver: WebhookReceiver) -> Desk:
    return Desk(console, receiver)


@pytest.mark.own_server
async def test_a_message_that_failed_is_shown_with_its_request_and_answers_and_sent_now(desk: Desk) -> None:
    path = await desk.fail()

    page = await desk.console.page(path)
    desk.receiver.otherwise = status(200)
    sent = await desk.console.change(path, "retry")
    await desk.gone()

    assert "the receiver answered 500" in page
    assert "<dt>webhook-id</dt>" in page
    assert "&#34;event&#34;: &#34;subscribed&#34;" in page
    assert "secret-path" not in page
    assert re.search(r'<span class="mark warn">failed</span>\s+the receiver answered 500', page)
    assert "The message is sent now." in sent
    attempts = await desk.console.page(f"{WEBHOOKS}/attempts")
    counts = re.findall(r'<td data-label="(?:delivered|failed|gone)" class="number">(\d+)<', attempts)
    assert counts == ["1", "1", "0"]
    assert (await desk.console.get(path)).status == 404
    assert (await desk.console.send(path, "retry")).status == 404


@pytest.mark.own_server
async def test_dead_messages_of_a_destination_are_sent_now_or_dropped(desk: Desk) -> None:
    await desk.die()
    listed = await desk.console.page(f"{WEBHOOKS}?destination={quote(desk.destination, safe='')}")

    assert "given up" in listed
    assert f'name="destination" value="{desk.destination}"><button>Send all now' in listed
    sent = await desk.console.change(WEBHOOKS, "retry-dead", destination=desk.destination)
    assert "1 dead message is sent now." in sent
    path = await desk.come_to("waiting", 2)
    other = await desk.console.change(WEBHOOKS, "drop-dead", destination="https://a.example:443")
    assert "0 dead messages are dropped." in other
    assert (await desk.console.send(WEBHOOKS, "drop-dead", destination="")).status == 400
    before = len(desk.receiver.requests)
    assert "The message is dropped." in await desk.console.change(path, "drop")
    assert (await desk.console.send(path, "drop")).status == 404
    assert len(desk.receiver.requests) == before


@pytest.mark.own_server
async def test_a_test_says_what_the_receiver_answered(desk: Desk) -> None:
    desk.receiver.script += [status(204), status(503)]

    taken = await desk.console.change(WEBHOOKS, "test", url=desk.receiver.url())
    refused = await desk.console.change(WEBHOOKS, "test", url=desk.receiver.url())
    wrong = await desk.console.send(WEBHOOKS, "test", url="javascript:alert(1)")

    assert 'class="notice good" role="status"><p>The receiver took the test: it answered 204' in taken
    assert 'class="notice bad" role="status"><p>The receiver did not take the test: the receiver' in refused
    assert wrong.status == 400
    assert 'value="javascript:alert(1)"' in wrong.body.decode()


@pytest.mark.own_server
async def test_a_push_is_tested_and_listed_by_channel_and_outcome(desk: Desk) -> None:
    await PushClient(desk.console.server).register(peerName="Shop", language="de")

    taken = await desk.console.change(PUSHES, "test", topic=TOPIC)
    unknown = await desk.console.send(PUSHES, "test", topic="nobody")
    attempts = await desk.console.page(f"{PUSHES}/attempts")

    assert "The push was taken after" in taken
    assert unknown.status == 404
    assert re.search(r'<th scope="row">log</th><td data-label="delivered" class="number">1<', attempts)
    shown = re.findall(rf'href="({PUSHES}/attempts/\d+[^"]*)"', attempts)
    assert "kept in test mode only" in await desk.console.page(shown[0])
    assert TOPIC not in attempts
    assert "Nothing was sent since the start: <a" in await desk.console.page(f"{WEBHOOKS}/attempts")


async def test_in_test_mode_a_push_is_shown_as_on_a_phone(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", console=True, test=True) as server:
        console = await ConsoleClient(server).sign_in()
        push = PushClient(server)
        await push.register(type="fcm", peerName="Shop \u202e<b>", language="de")
        assert (await push.push()).status == 200
        [path] = re.findall(rf'href="({PUSHES}/attempts/\d+[^"]*)"', await console.page(f"{PUSHES}/attempts"))

        page = await console.page(path)

    assert '<p class="title" dir="auto">Shop &lt;b&gt;</p>' in page
    assert "Neue Anfrage von Shop &lt;b&gt;</p>" in page
    check_only_text(page)


async def test_a_preview_is_in_the_clients_language_and_what_means_nothing_is_refused(desk: Desk) -> None:
    german = await desk.console.page(f"{PUSHES}/preview?peer_name=Shop&language=de_AT")
    hebrew = await desk.console.page(f"{PUSHES}/preview?peer_name=Shop&language=iw")

    assert '<p class="title" dir="ltr" lang="de">Shop</p>' in german
    assert '<p dir="ltr" lang="de">Neue Anfrage von Shop</p>' in german
    assert '<p dir="rtl" lang="he">' in hebrew
    assert "\u2068Shop\u2069" in hebrew
    assert (await desk.console.get(f"{PUSHES}/preview?peer_name={'x' * 1025}")).status == 400
    for path in (WEBHOOKS, PUSHES):
        for query in ("state=sent", "after=x"):
            assert (await desk.console.get(f"{path}?{query}")).status == 400
    assert (await desk.console.get(f"{WEBHOOKS}/attempts/x")).status == 404


async def test_hostile_texts_are_only_text(desk: Desk) -> None:
    for text in HOSTILE:
        encoded = quote(text, safe="")
        for page in (
            await desk.console.page(f"{PUSHES}/preview?peer_name={encoded}&language={encoded}"),
            await desk.console.page(f"{WEBHOOKS}?destination={encoded}"),
            (await desk.console.send(WEBHOOKS, "test", url=text)).body.decode(),
            (await desk.console.send(PUSHES, "test", topic=text)).body.decode(),
        ):
            check_only_text(page)
