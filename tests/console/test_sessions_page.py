"""The page of sessions: the list, a session with its timeline, the QR code of a pairing, and the end."""

import base64
import html
import re
from urllib.parse import unquote

import pytest

from bridge_server.console.sessions import qr_image
from tests.support.bridge_client import BridgeClient
from tests.support.console_client import ConsoleClient, elements
from tests.support.irn_client import Identity, irn_connected
from tests.support.rows import each_row
from tests.support.server import RunningServer

PATH = "/console/sessions"
URI = "wc:8a5e5bdc-a0e4-4702-ba63-8f1a5655744f@1?bridge=https%3A%2F%2Fbridge.example.org&key=41791102"


@pytest.fixture
def bridge(server: RunningServer) -> BridgeClient:
    return BridgeClient(server)


async def place_of(console: ConsoleClient) -> str:
    """The path of the newest session."""
    found = re.search(rf'href="({PATH}/[^"?]+)"', await console.page(PATH))
    assert found is not None
    return html.unescape(found[1])


async def test_sessions_are_listed_without_their_ids(console: ConsoleClient, bridge: BridgeClient) -> None:
    session_id = await bridge.open_session()
    await bridge.request_call(session_id, dapp_name="<b>Dapp</b>")

    page = await console.page(PATH)

    assert session_id not in page
    assert f"{session_id[:8]}…" in page
    assert "<bdi>&lt;b&gt;Dapp&lt;/b&gt;</bdi>" in page
    assert re.search(r'data-label="Calls waiting" class="number">1<', page)
    assert "No session lives." not in page


async def test_a_server_without_sessions_says_how_to_open_one(console: ConsoleClient) -> None:
    page = await console.page(PATH)

    assert 'lives: <a href="/docs/connect">' in page
    assert "No client of 2.x is subscribed to a topic." in page


async def test_topics_of_2x_are_listed_below_and_lead_to_their_traffic(console: ConsoleClient) -> None:
    server, topic = console.server, "9f2c6a01" * 8
    async with irn_connected(server.client, server.url, Identity()) as dapp:
        await dapp.subscribe(topic)
        await dapp.publish(topic, tag=1108)
        page = await console.page(PATH)
        traffic = await console.page(f"/console/traffic?filter={topic[:8]}")

    row = re.findall(rf"<tr>\s*<th[^>]*><a [^>]*>{topic[:8]}….*?</tr>", page, re.DOTALL)[0]
    words = " ".join(re.sub("<[^>]*>", " ", row).split()).split()
    assert words[:5] == [f"{topic[:8]}…", "session", "1", "1", "1"]
    assert topic not in page
    assert f'href="/console/traffic?filter={topic[:8]}"' in row
    assert "2.x irn_publish, tag 1108, 7 B" in traffic


async def test_older_sessions_are_on_other_pages(console: ConsoleClient, bridge: BridgeClient) -> None:
    for _ in range(26):
        await bridge.open_session()
    first = await console.page(PATH)
    after = re.search(r"\?after=(\d+)", first)
    assert after is not None

    second = await console.page(f"{PATH}?after={after[1]}")

    assert (first.count('data-label="Dapp"'), second.count('data-label="Dapp"')) == (25, 1)
    assert (await console.get(f"{PATH}?after=x")).status == 400


async def test_a_session_has_its_timeline_and_its_requests(
    console: ConsoleClient, bridge: BridgeClient
) -> None:
    session_id = await bridge.open_session()
    await bridge.update(session_id)
    call_id = await bridge.request_call(session_id)
    await bridge.answer(call_id)

    page = await console.page(await place_of(console))

    timeline = page.partition("<h3>Timeline</h3>")[2].partition("</table>")[0]
    assert re.findall(r'<th scope="row">(.*?)</th>', timeline) == ["opened", "asked", "answered", "expires"]
    assert f"PUT /session/{session_id[:8]}…" in page
    assert f"POST /call-status/{call_id[:8]}…/new" in page
    assert "has approved or rejected it" in page
    assert session_id not in page
    link = re.search(r'href="(/console/traffic/\d+\?filter=session:[^"]+)"', page)
    assert link is not None
    assert (await console.page(link[1])).count('<tr id="request-') == 3


async def test_the_operator_ends_a_session(console: ConsoleClient, bridge: BridgeClient) -> None:
    session_id = await bridge.open_session()
    place = await place_of(console)

    page = await console.change(place, "end")

    assert "The session is ended, with its calls." in page
    assert (await bridge.session(session_id)).status == 404
    assert (await console.get(place)).status == 404


async def test_a_pairing_uri_is_drawn_once_and_not_kept(console: ConsoleClient, bridge: BridgeClient) -> None:
    await bridge.open_session()
    place = await place_of(console)
    drawn = await console.change(place, "qr", uri=f" {URI} ")

    (image,) = [attributes for tag, attributes in elements(drawn) if tag == "img"]
    assert image == {"class": "qr", "src": qr_image(URI), "alt": "QR code of the pairing URI"}
    assert "key=41791102" not in drawn
    assert "data:image" not in await console.page(place)
    assert "41791102" not in await console.page("/console/traffic")


@each_row("uri", ["", "https://example.org", "javascript:alert(1)", "wc:" + "x" * 2_000])
async def test_a_text_that_is_no_pairing_uri_is_not_drawn(
    console: ConsoleClient, bridge: BridgeClient, uri: str
) -> None:
    await bridge.open_session()

    answer = await console.send(await place_of(console), "qr", uri=uri)

    assert answer.status == 400
    assert "A pairing URI" in answer.body.decode()


def test_the_image_is_an_svg_without_scripts() -> None:
    kind, _, data = qr_image(URI).partition(",")
    text = base64.b64decode(data).decode() if kind.endswith("base64") else unquote(data)

    assert kind.startswith("data:image/svg+xml")
    assert text.startswith("<svg") or "<svg" in text[:100]
    assert "script" not in text
