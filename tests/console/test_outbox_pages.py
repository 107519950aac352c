"""The pages of webhooks and pushes: what is owed, sent now, dropped, tested, previewed."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from bridge_server.outbox.delivery import DELAYS_SECONDS
from tests.console.test_strangers_texts import HOSTILE, check_only_text
from tests.support.console_client import ConsoleClient, check_texts, found, make_project, subscribe
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

    async def come_to(self, state: str, attempts: int) -> str:
        """The path of the one message, once it is in this state after so many attempts."""
        path = f"{WEBHOOKS}?state={state}"

        async def there() -> bool:
            return f'data-label="Attempts" class="number more">{attempts}<' in await self.console.page(path)

        await eventually(there)
        return found(rf'href="({WEBHOOKS}/\d+-[^"]+)"', await self.console.page(path))

    async def fail(self) -> str:
        """Owe a message whose first attempt has failed; returns its path."""
        self.receiver.otherwise = status(500)
        await make_project(self.console, "app")
        await self.console.send("/console/projects/app", "set-webhook", url=self.receiver.url("/secret-path"))
        await subscribe(self.console, "app", ACCOUNT)
        return await self.come_to("waiting", 1)


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return {"console": True, "allow_private_webhooks": True, "push_log": True}


@pytest.fixture
def desk(console: ConsoleClient, receiver: WebhookReceiver) -> Desk:
    return Desk(console, receiver)


@pytest.mark.own_server
async def test_a_message_that_failed_is_shown_with_its_request_and_answers_and_sent_now(desk: Desk) -> None:
    path = await desk.fail()

    page = await desk.console.page(path, "&#34;event&#34;: &#34;subscribed&#34;")
    desk.receiver.otherwise = status(200)
    await desk.console.change(path, "retry", "The message is sent now.")

    async def nothing_waits() -> bool:
        return "Nothing waits" in await desk.console.page(WEBHOOKS)

    await eventually(nothing_waits)
    check_texts(page, "the receiver answered 500", "<dt>webhook-id</dt>", hidden=("secret-path",))
    assert re.search(r'<span class="mark warn">failed</span>\s+the receiver answered 500', page)
    attempts = await desk.console.page(f"{WEBHOOKS}/attempts")
    counts = re.findall(r'<td data-label="(?:delivered|failed|gone)" class="number">(\d+)<', attempts)
    assert counts == ["1", "1", "0"]
    await desk.console.page(path, status=404)
    await desk.console.refused(path, "retry", code=404)


@pytest.mark.own_server
async def test_dead_messages_of_a_destination_are_sent_now_or_dropped(desk: Desk) -> None:
    await desk.fail()
    for attempts, seconds in enumerate(DELAYS_SECONDS, 1):
        await desk.come_to("waiting", attempts)
        desk.console.server.clock.advance(seconds * 1.3)
        await desk.console.sign_in()  # a sign-in has ended meanwhile
    await desk.come_to("dead", len(DELAYS_SECONDS) + 1)
    destination = desk.receiver.url("")
    listed = await desk.console.page(f"{WEBHOOKS}?destination={quote(destination, safe='')}")

    check_texts(listed, "given up", f'name="destination" value="{destination}"><button>Send all now')
    await desk.console.change(WEBHOOKS, "retry-dead", "1 dead message is sent now.", destination=destination)
    path = await desk.come_to("waiting", 2)
    other = await desk.console.change(WEBHOOKS, "drop-dead", destination="https://a.example:443")
    check_texts(other, "0 dead messages are dropped.")
    await desk.console.refused(WEBHOOKS, "drop-dead", destination="")
    before = len(desk.receiver.requests)
    await desk.console.change(path, "drop", "The message is dropped.")
    await desk.console.refused(path, "drop", code=404)
    assert len(desk.receiver.requests) == before


@pytest.mark.own_server
async def test_a_test_of_a_webhook_or_a_push_says_what_became_of_it(desk: Desk) -> None:
    await PushClient(desk.console.server).register(peerName="Shop", language="de")
    desk.receiver.script += [status(204), status(503)]
    for answer in (
        'good" role="status"><p>The receiver took the test: it answered 204',
        'bad" role="status"><p>The receiver did not take the test: the receiver',
    ):
        await desk.console.change(WEBHOOKS, "test", f'class="notice {answer}', url=desk.receiver.url())
    await desk.console.refused(WEBHOOKS, "test", 'value="javascript:alert(1)"', url="javascript:alert(1)")

    await desk.console.change(PUSHES, "test", "The push was taken after", topic=TOPIC)
    await desk.console.refused(PUSHES, "test", code=404, topic="nobody")
    attempts = await desk.console.page(f"{PUSHES}/attempts")
    assert TOPIC not in attempts
    check_texts(attempts, '<th scope="row">log</th><td data-label="delivered" class="number">1<')
    shown = await desk.console.page(found(rf'href="({PUSHES}/attempts/\d+[^"]*)"', attempts))
    check_texts(shown, "kept in test mode only")


async def test_in_test_mode_a_push_is_shown_as_on_a_phone(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", console=True, test=True) as server:
        console = await ConsoleClient(server).sign_in()
        push = PushClient(server)
        await push.register(type="fcm", peerName="Shop \u202e<b>", language="de")
        assert (await push.push()).status == 200
        attempts = await console.page(f"{PUSHES}/attempts")
        page = await console.page(found(rf'href="({PUSHES}/attempts/\d+[^"]*)"', attempts))
    check_texts(page, '<p class="title" dir="auto">Shop &lt;b&gt;</p>', "Neue Anfrage von Shop &lt;b&gt;</p>")
    check_only_text(page)


async def test_a_preview_is_in_the_clients_language_and_what_means_nothing_is_refused(desk: Desk) -> None:
    german = await desk.console.page(f"{PUSHES}/preview?peer_name=Shop&language=de_AT")
    hebrew = await desk.console.page(f"{PUSHES}/preview?peer_name=Shop&language=iw")

    check_texts(german, '<p class="title" dir="ltr" lang="de">Shop</p>')
    check_texts(german, '<p dir="ltr" lang="de">Neue Anfrage von Shop</p>')
    check_texts(hebrew, '<p dir="rtl" lang="he">', "\u2068Shop\u2069")
    await desk.console.page(f"{PUSHES}/preview?peer_name={'x' * 1025}", status=400)
    for path in (WEBHOOKS, PUSHES):
        for query in ("state=sent", "after=x"):
            await desk.console.page(f"{path}?{query}", status=400)
    await desk.console.page(f"{WEBHOOKS}/attempts/x", status=404)
    await desk.console.page(f"{WEBHOOKS}/attempts", "Nothing was sent since the start: <a")


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
