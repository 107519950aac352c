"""The pages of traffic, sessions and clients."""

import asyncio
import base64
import html
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import aiohttp
import orjson
import pytest

from bridge_server.console.sessions import qr_image
from tests.support.asking import ask, next_event
from tests.support.bridge_client import BridgeClient
from tests.support.console_client import ConsoleClient, check_texts, elements, found, words
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.socket_client import Identity, irn_connected

PATH = "/console/traffic"
STREAM = f"{PATH}/stream"
HOSTILE = '<script>alert(1)</script>\u202e"'
SESSIONS = "/console/sessions"
URI = "wc:8a5e5bdc-a0e4-4702-ba63-8f1a5655744f@1?bridge=https%3A%2F%2Fbridge.example.org&key=41791102"
CLIENTS = "/console/clients"


@pytest.fixture
def bridge(server: RunningServer) -> BridgeClient:
    return BridgeClient(server)


def rows(page: str) -> list[str]:
    """The texts of the list's rows, newest first."""
    return [words(row) for row in re.findall(r'<tr id="request-[\d-]+".*?</tr>', page, re.DOTALL)]


async def place_of(console: ConsoleClient, text: str) -> str:
    """The path of the newest request whose row has the text."""
    page = await console.page(PATH)
    found_rows = [row for row in re.findall(r'<tr id="request-.*?</tr>', page, re.DOTALL) if text in row]
    return found(rf'href="({PATH}/\d+[^"]*)"', found_rows[0])


def repeated(page: str, language: str) -> str:
    return found(rf'<pre id="as-{language}"[^>]*>(.*?)</pre>', page)


async def test_requests_are_listed_and_shown_in_full(console: ConsoleClient, bridge: BridgeClient) -> None:
    session_id = await bridge.open_session()
    await bridge.update(session_id)
    await bridge.post_call(session_id, payload="sealed", dapp_name="")
    listed = rows(await console.page(PATH))
    page = await console.page(await place_of(console, "call/new"))
    assert [line.split(" ", 3)[2] for line in listed] == ["dapp", "wallet", "dapp"]
    check_texts(listed[0], f"POST /session/{session_id[:8]}…/call/new 400", "#/dappName")
    assert session_id not in "".join(listed)
    check_texts(page, "<h3>Problem</h3>", "<code>#/dappName</code>", "sealed</textarea>")
    check_texts(html.unescape(page), "<dt>Content-Type</dt><dd>application/json</dd>", '"dappName": ""')


async def test_a_filter_and_a_kind_choose_requests(console: ConsoleClient, bridge: BridgeClient) -> None:
    session_id = await bridge.open_session()
    await bridge.get("/nothing-here")
    await bridge.get("/info")

    assert len(rows(await console.page(f"{PATH}?filter=session:{session_id[:8]}"))) == 1
    assert len(rows(await console.page(f"{PATH}?filter=-route:info"))) == 2
    (missing,) = rows(await console.page(f"{PATH}?only=errors"))
    assert "404" in missing
    page = await console.page(f"{PATH}?filter=status:404&only=rpc", "No request passes the filter.")
    assert rows(page) == []
    check_texts(page, f'data-stream="{STREAM}?filter=status%3A404&amp;only=rpc"')
    unknown = await console.page(f"{PATH}?filter=colour:red%22", status=400)
    check_texts(unknown, "does not know colour:", 'value="colour:red&#34;"', 'data-stream=""')


async def test_older_requests_are_on_other_pages(console: ConsoleClient, bridge: BridgeClient) -> None:
    for _ in range(101):
        await bridge.get("/hello")
    first = await console.page(PATH)
    second = await console.page(PATH + found(r'(\?after=[^"]+)"', first), 'data-stream=""')
    missing = await console.page(f"{PATH}/999999", status=404)
    assert (len(rows(first)), len(rows(second))) == (100, 1)
    assert len(rows(await console.page(f"{PATH}?after=x"))) == 100
    check_texts(missing, "No request of this number is among the last 2000.", "<live-traffic")


async def test_the_lifetime_of_a_call_spans_requests(console: ConsoleClient, bridge: BridgeClient) -> None:
    session_id = await bridge.open_session()
    call_id = await bridge.request_call(session_id)
    place = await place_of(console, "call/new")
    await console.page(place, f'data-call="{call_id}"', "Answer as the wallet")
    await bridge.calls(session_id)
    await bridge.answer(call_id)
    await bridge.status(call_id)

    answered = await console.page(place)

    assert "Answer as the wallet" not in answered
    life = answered.partition("Lifetime of the call")[2].partition("</table>")[0]
    steps = re.findall(r'<th scope="row">(?:<a [^>]*>)?([^<]*)', life)
    assert steps == ["asked", "fetched", "answered", "status read", "expires"]


@each_row("language", ["curl", "python", "javascript"])
async def test_a_request_is_repeated_as_it_was(
    console: ConsoleClient, bridge: BridgeClient, tmp_path: Path, language: str
) -> None:
    session_id = await bridge.open_session()
    await bridge.post_call(session_id, payload="it's \\ $HOME `x` {1,2}", dapp_name=HOSTILE)
    text = repeated(await console.page(await place_of(console, "call/new")), language)
    script = tmp_path / "repeated.mjs"
    script.write_text(text, "utf-8")
    commands = {
        "curl": ["bash", "-c", text],
        "python": [sys.executable, str(script)],
        "javascript": ["node", str(script)],
    }

    finished = await asyncio.to_thread(
        subprocess.run, commands[language], capture_output=True, text=True, timeout=60, check=False
    )

    assert text.isascii()
    assert finished.returncode == 0, finished.stderr
    assert "200" in finished.stdout
    first, second = (await bridge.calls(session_id)).json.values()
    assert first == second == {"encryptionPayload": "it's \\ $HOME `x` {1,2}"}


async def test_neither_a_token_nor_a_body_that_is_not_kept_whole_is_repeated(
    console: ConsoleClient, server: RunningServer, bridge: BridgeClient
) -> None:
    await ask(server, "POST", "/v1/shop/mark-all-as-read", b"{}", {"Authorization": "Bearer very-secret"})
    await bridge.update(await bridge.open_session(), payload="x" * 20_000)
    page = await console.page(await place_of(console, "mark-all-as-read"))
    large = await console.page(await place_of(console, "PUT"))
    check_texts(page, "Put the token in the place of TOKEN.", hidden=("very-secret",))
    check_texts(repeated(page, "curl"), "Authorization: Bearer TOKEN")
    check_texts(large, "of which the first 16 KiB are kept", hidden=("<h3>Repeat</h3>",))


async def test_texts_of_clients_are_only_text(console: ConsoleClient, bridge: BridgeClient) -> None:
    session_id = await bridge.open_session()
    await bridge.post_call(session_id, payload=HOSTILE, dapp_name=HOSTILE)
    await bridge.get("/%3Cscript%3E/<img%20src=x>")
    for path in (PATH, await place_of(console, "call/new")):
        page = await console.page(path)
        check_texts(page, "U+202E", hidden=("<script>alert",))
        assert not [tag for tag, _ in elements(page) if tag == "img"]


async def next_row(stream: aiohttp.StreamReader) -> dict[str, object]:
    return dict(orjson.loads((await next_event(stream))["data"]))


async def test_a_stream_has_rows_as_they_change(console: ConsoleClient, bridge: BridgeClient) -> None:
    await bridge.get("/hello")
    session_id = await bridge.open_session()
    async with console.stream(f"{STREAM}?filter=session:{session_id[:8]}%20is:waits") as stream:
        poll = asyncio.ensure_future(bridge.get(f"/session/{session_id}?wait=20"))
        waiting = await next_row(stream)
        await bridge.update(session_id)
        answered = await next_row(stream)
        await poll
    async with console.stream(f"{STREAM}?since=1") as stream:
        following = await next_row(stream)

    assert (waiting["tone"], waiting["took"], answered["status"]) == ("waits", "", "200")
    assert str(waiting["status"]).startswith("waits ")
    assert waiting["number"] == answered["number"]
    assert str(answered["took"]).startswith("waited ")
    assert answered["request"] == f"GET /session/{session_id[:8]}…?wait=20"
    assert following["request"] == "POST /session/new"
    await console.page(f"{STREAM}?filter=colour:red", status=400)
    await console.page(f"{STREAM}?since=x", status=400)
    await ConsoleClient(console.server).page(STREAM, status=401)


async def test_in_production_ids_are_shortened_and_nothing_is_kept_of_bodies(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", console=True) as server:
        console, bridge = await ConsoleClient(server).sign_in(), BridgeClient(server)
        session_id = await bridge.open_session()
        call_id = await bridge.request_call(session_id, payload="sealed")
        await bridge.session(session_id)
        listed = await console.page(PATH)
        call = await console.page(await place_of(console, "call/new"))
        read = await console.page(await place_of(console, "GET"))

    for page in (listed, call, read):
        check_texts(page, hidden=(session_id, call_id, "sealed<"))
    check_texts(call, "Lifetime of the call", "Headers and bodies are kept in test mode alone.")
    check_texts(call, hidden=("Answer as the wallet", "<h3>Repeat</h3>"))
    check_texts(read, "Ids are shortened")
    async with running_server(tmp_path / "other", console=True, traffic=False) as server:
        console = await ConsoleClient(server).sign_in()
        await console.page(PATH, "<code>traffic = on</code>")
        for path in (STREAM, f"{PATH}/1"):
            await console.page(path, status=404)


async def test_topics_of_2x_are_listed_below_and_lead_to_their_traffic(console: ConsoleClient) -> None:
    server, topic = console.server, "9f2c6a01" * 8
    async with irn_connected(server.client, server.url, Identity()) as dapp:
        await dapp.subscribe(topic)
        await dapp.publish(topic, tag=1108)
        page = await console.page(SESSIONS)
        traffic = await console.page(f"{PATH}?filter={topic[:8]}")

    row = found(rf"<tr>\s*<th[^>]*>(<a [^>]*>{topic[:8]}….*?)</tr>", page)
    assert words(row).split()[:5] == [f"{topic[:8]}…", "session", "1", "1", "1"]
    check_texts(row, f'href="{PATH}?filter={topic[:8]}"', hidden=(topic,))
    assert topic not in page
    check_texts(traffic, "2.x irn_publish, tag 1108, 7 B")


async def test_sessions_are_listed_without_their_ids(console: ConsoleClient, bridge: BridgeClient) -> None:
    nothing = await console.page(SESSIONS)
    session_id = await bridge.open_session()
    await bridge.request_call(session_id, dapp_name="<b>Dapp</b>")
    one = await console.page(SESSIONS, f"{session_id[:8]}…", "<bdi>&lt;b&gt;Dapp&lt;/b&gt;</bdi>")
    for _ in range(25):
        await bridge.open_session()
    first = await console.page(SESSIONS)
    second = await console.page(SESSIONS + found(r"(\?after=\d+)", first))

    check_texts(nothing, 'lives: <a href="/docs/connect">', "No client of 2.x is subscribed to a topic.")
    check_texts(one, 'data-label="Calls waiting" class="number">1<', hidden=(session_id, "No session lives."))
    assert (first.count('data-label="Dapp"'), second.count('data-label="Dapp"')) == (25, 1)
    await console.page(f"{SESSIONS}?after=x", status=400)


async def test_a_session_is_shown_until_it_is_ended(console: ConsoleClient, bridge: BridgeClient) -> None:
    session_id = await bridge.open_session()
    await bridge.update(session_id)
    call_id = await bridge.request_call(session_id)
    await bridge.answer(call_id)
    place = found(rf'href="({SESSIONS}/[^"?]+)"', await console.page(SESSIONS))

    page = await console.page(place)
    timeline = page.partition("<h3>Timeline</h3>")[2].partition("</table>")[0]
    assert re.findall(r'<th scope="row">(.*?)</th>', timeline) == ["opened", "asked", "answered", "expires"]
    check_texts(page, f"PUT /session/{session_id[:8]}…", f"POST /call-status/{call_id[:8]}…/new")
    check_texts(page, "has approved or rejected it", hidden=(session_id,))
    request = await console.page(found(r'href="(/console/traffic/\d+\?filter=session:[^"]+)"', page))
    assert request.count('<tr id="request-') == 3

    drawn = await console.change(place, "qr", uri=f" {URI} ")
    (image,) = [attributes for tag, attributes in elements(drawn) if tag == "img"]
    assert image == {"class": "qr", "src": qr_image(URI), "alt": "QR code of the pairing URI"}
    kind, _, data = qr_image(URI).partition(",")
    text = base64.b64decode(data).decode() if kind.endswith("base64") else unquote(data)
    assert kind.startswith("data:image/svg+xml")
    assert "<svg" in text[:100]
    assert "script" not in text
    assert "key=41791102" not in drawn
    check_texts(await console.page(place), hidden=("data:image", "41791102"))  # it is not kept
    assert "41791102" not in await console.page(PATH)
    for uri in ("", "https://example.org", "javascript:alert(1)", "wc:" + "x" * 2_000):
        await console.refused(place, "qr", "A pairing URI", uri=uri)

    await console.change(place, "end", "The session is ended, with its calls.")
    assert (await bridge.session(session_id)).status == 404
    await console.page(place, status=404)


def addresses(page: str) -> list[str]:
    return re.findall(r'<th scope="row" class="mono"><a [^>]*>([^<]*)</a>', page)


async def test_addresses_are_listed_by_the_figure_that_is_chosen(tmp_path: Path) -> None:
    trusted: dict[str, Any] = {"trusted_proxies": ["127.0.0.1"], "quota_exempt": ["127.0.0.0/8"]}
    async with running_server(tmp_path / "data", console=True, **trusted) as server:
        console = await ConsoleClient(server).sign_in()
        for _ in range(3):
            await ask(server, "GET", "/hello", headers={"X-Forwarded-For": "192.0.2.1"})
        await ask(server, "POST", "/session/new", headers={"X-Forwarded-For": "2001:db8::7"})

        by_requests = await console.page(CLIENTS)
        by_sessions = await console.page(f"{CLIENTS}?by=sessions&last=start")
        network = await console.page(found(r'href="(/console/clients/2001[^"]*)"', by_requests))

    assert addresses(by_requests)[:2] == ["192.0.2.1", "2001:db8::/64"]
    assert addresses(by_sessions)[0] == "2001:db8::/64"
    check_texts(by_sessions, 'href="/console/clients?by=sessions&amp;last=start" aria-current="true"')
    check_texts(network, '<h2 class="mono">2001:db8::/64</h2>', 'aria-current="true">2001:db8::/64')


async def test_a_wrong_query_of_clients_says_so_and_the_list_stays(console: ConsoleClient) -> None:
    for query in ("?by=weight", "?last=2y", "?last="):
        await console.page(CLIENTS + query, "The query parameter", 'id="list"', status=400)
    await console.page(f"{CLIENTS}/nobody", "is no address of a client", status=400)
    await console.page(f"{CLIENTS}/127.0.0.1", "<code>quota_exempt</code>")
    await console.get("/openapi.json")
    heavy = await console.page(f"{CLIENTS}?by=bytes")
    assert re.search(r'data-label="Bytes" class="number">\d+\N{NO-BREAK SPACE}\d{3}', heavy)
