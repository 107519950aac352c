"""The pages of traffic, sessions and clients."""

import asyncio
import base64
import html
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote

import aiohttp
import orjson
import pytest

from bridge_server.console.sessions import qr_image
from tests.support.asking import ask
from tests.support.bridge_client import BridgeClient
from tests.support.console_client import ConsoleClient, elements
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
    found = re.findall(r'<tr id="request-[\d-]+".*?</tr>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in found]


def number_of(page: str, text: str) -> str:
    """The number of the newest request whose row has the text, and its process on PostgreSQL."""
    found = [row for row in re.findall(r'<tr id="request-.*?</tr>', page, re.DOTALL) if text in row]
    number = re.search(rf'href="{PATH}/(\d+[^"]*)"', found[0])
    assert number is not None
    return number[1]


async def shown(console: ConsoleClient, text: str) -> str:
    """The page of the newest request whose row has the text."""
    return await console.page(f"{PATH}/{number_of(await console.page(PATH), text)}")


def repeated(page: str, language: str) -> str:
    found = re.search(rf'<pre id="as-{language}"[^>]*>(.*?)</pre>', page, re.DOTALL)
    assert found is not None
    return html.unescape(found[1])


async def test_requests_are_listed_newest_first_and_shown_with_headers_bodies_and_problem(
    console: ConsoleClient, bridge: BridgeClient
) -> None:
    session_id = await bridge.open_session()
    await bridge.update(session_id)
    await bridge.post_call(session_id, payload="sealed", dapp_name="")

    listed = rows(await console.page(PATH))
    page = await shown(console, "call/new")

    assert [line.split(" ", 3)[2] for line in listed] == ["dapp", "wallet", "dapp"]
    assert f"POST /session/{session_id[:8]}…/call/new 400" in listed[0]
    assert "#/dappName" in listed[0]
    assert session_id not in "".join(listed)
    assert "<h3>Problem</h3>" in page
    assert "<code>#/dappName</code>" in page
    assert "<dt>Content-Type</dt><dd>application/json</dd>" in page
    assert "sealed</textarea>" in page
    assert '"dappName": ""' in html.unescape(page)


async def test_a_filter_and_a_kind_choose_requests(console: ConsoleClient, bridge: BridgeClient) -> None:
    session_id = await bridge.open_session()
    await bridge.get("/nothing-here")
    await bridge.get("/info")

    assert len(rows(await console.page(f"{PATH}?filter=session:{session_id[:8]}"))) == 1
    assert len(rows(await console.page(f"{PATH}?filter=-route:info"))) == 2
    (missing,) = rows(await console.page(f"{PATH}?only=errors"))
    assert "404" in missing
    page = await console.page(f"{PATH}?filter=status:404&only=rpc")
    assert rows(page) == []
    assert "No request passes the filter." in page
    assert f'data-stream="{PATH}/stream?filter=status%3A404&amp;only=rpc"' in page
    unknown = await console.get(f"{PATH}?filter=colour:red%22")
    page = unknown.body.decode()
    assert unknown.status == 400
    assert "does not know colour:" in page
    assert 'value="colour:red&#34;"' in page
    assert 'data-stream=""' in page


async def test_older_requests_are_on_other_pages_and_one_that_is_not_kept_leaves_the_list(
    console: ConsoleClient, bridge: BridgeClient
) -> None:
    for _ in range(101):
        await bridge.get("/hello")
    first = await console.page(PATH)
    after = re.search(r'\?after=([^"]+)"', first)
    assert after is not None

    second = await console.page(f"{PATH}?after={after[1]}")
    missing = await console.get(f"{PATH}/999999")

    assert (len(rows(first)), len(rows(second))) == (100, 1)
    assert 'data-stream=""' in second
    assert len(rows(await console.page(f"{PATH}?after=x"))) == 100
    assert missing.status == 404
    assert "No request of this number is among the last 2000." in missing.body.decode()
    assert "<live-traffic" in missing.body.decode()


async def test_the_lifetime_of_a_call_goes_across_requests(
    console: ConsoleClient, bridge: BridgeClient
) -> None:
    session_id = await bridge.open_session()
    call_id = await bridge.request_call(session_id)
    place = f"{PATH}/{number_of(await console.page(PATH), 'call/new')}"
    waiting = await console.page(place)
    await bridge.calls(session_id)
    await bridge.answer(call_id)
    await bridge.status(call_id)

    answered = await console.page(place)

    assert f'data-call="{call_id}"' in waiting
    assert "Answer as the wallet" in waiting
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
    page = await shown(console, "call/new")
    text = repeated(page, language)
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
    listed = await console.page(PATH)

    page = await console.page(f"{PATH}/{number_of(listed, 'mark-all-as-read')}")
    large = await console.page(f"{PATH}/{number_of(listed, 'PUT')}")

    assert "very-secret" not in page
    assert "Authorization: Bearer TOKEN" in repeated(page, "curl")
    assert "Put the token in the place of TOKEN." in page
    assert "of which the first 16 KiB are kept" in large
    assert "<h3>Repeat</h3>" not in large


async def test_texts_of_clients_are_only_text(console: ConsoleClient, bridge: BridgeClient) -> None:
    session_id = await bridge.open_session()
    await bridge.post_call(session_id, payload=HOSTILE, dapp_name=HOSTILE)
    await bridge.get("/%3Cscript%3E/<img src=x>".replace(" ", "%20"))
    listed = await console.page(PATH)

    for page in (listed, await console.page(f"{PATH}/{number_of(listed, 'call/new')}")):
        assert "<script>alert" not in page
        assert not [tag for tag, _ in elements(page) if tag == "img"]
        assert "U+202E" in page


async def next_row(stream: aiohttp.StreamReader) -> dict[str, object]:
    async with asyncio.timeout(60):
        while not (line := await stream.readline()).startswith(b"data: "):
            assert line, "the stream has ended"
    row: dict[str, object] = orjson.loads(line.removeprefix(b"data: "))
    return row


async def test_rows_come_as_they_change_and_a_poll_is_completed(
    console: ConsoleClient, bridge: BridgeClient
) -> None:
    session_id = await bridge.open_session()
    async with console.stream(f"{STREAM}?filter=session:{session_id[:8]}%20is:waits") as stream:
        poll = asyncio.ensure_future(bridge.get(f"/session/{session_id}?wait=20"))
        waiting = await next_row(stream)
        await bridge.update(session_id)
        answered = await next_row(stream)
        await poll

    assert (waiting["tone"], waiting["took"], answered["status"]) == ("waits", "", "200")
    assert str(waiting["status"]).startswith("waits ")
    assert waiting["number"] == answered["number"]
    assert str(answered["took"]).startswith("waited ")
    assert answered["request"] == f"GET /session/{session_id[:8]}…?wait=20"


async def test_the_stream_goes_on_after_a_change_and_refuses_what_means_nothing(
    console: ConsoleClient, bridge: BridgeClient
) -> None:
    await bridge.get("/hello")
    await bridge.get("/info")
    async with console.stream(f"{STREAM}?since=1") as stream:
        row = await next_row(stream)

    assert row["request"] == "GET /info"
    assert (await console.get(f"{PATH}/stream?filter=colour:red")).status == 400
    assert (await console.get(f"{PATH}/stream?since=x")).status == 400
    assert (await ConsoleClient(console.server).get(f"{PATH}/stream")).status == 401


async def test_in_production_ids_are_shortened_and_nothing_is_kept_of_bodies(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", console=True) as server:
        console, bridge = await ConsoleClient(server).sign_in(), BridgeClient(server)
        session_id = await bridge.open_session()
        call_id = await bridge.request_call(session_id, payload="sealed")
        await bridge.session(session_id)
        listed = await console.page(PATH)
        call = await console.page(f"{PATH}/{number_of(listed, 'call/new')}")
        read = await console.page(f"{PATH}/{number_of(listed, 'GET')}")

    for page in (listed, call, read):
        assert session_id not in page
        assert call_id not in page
        assert "sealed<" not in page
    assert "Lifetime of the call" in call
    assert "Answer as the wallet" not in call
    assert "Headers and bodies are kept in test mode alone." in call
    assert "<h3>Repeat</h3>" not in call
    assert "Ids are shortened" in read
    async with running_server(tmp_path / "other", console=True, traffic=False) as server:
        console = await ConsoleClient(server).sign_in()
        assert "<code>traffic = on</code>" in await console.page(PATH)
        assert [(await console.get(f"{PATH}{each}")).status for each in ("/stream", "/1")] == [404, 404]


async def place_of(console: ConsoleClient) -> str:
    """The path of the newest session."""
    found = re.search(rf'href="({SESSIONS}/[^"?]+)"', await console.page(SESSIONS))
    assert found is not None
    return html.unescape(found[1])


async def test_topics_of_2x_are_listed_below_and_lead_to_their_traffic(console: ConsoleClient) -> None:
    server, topic = console.server, "9f2c6a01" * 8
    async with irn_connected(server.client, server.url, Identity()) as dapp:
        await dapp.subscribe(topic)
        await dapp.publish(topic, tag=1108)
        page = await console.page(SESSIONS)
        traffic = await console.page(f"/console/traffic?filter={topic[:8]}")

    row = re.findall(rf"<tr>\s*<th[^>]*><a [^>]*>{topic[:8]}….*?</tr>", page, re.DOTALL)[0]
    words = " ".join(re.sub("<[^>]*>", " ", row).split()).split()
    assert words[:5] == [f"{topic[:8]}…", "session", "1", "1", "1"]
    assert topic not in page
    assert f'href="/console/traffic?filter={topic[:8]}"' in row
    assert "2.x irn_publish, tag 1108, 7 B" in traffic


async def test_sessions_are_listed_without_their_ids_page_by_page(
    console: ConsoleClient, bridge: BridgeClient
) -> None:
    nothing = await console.page(SESSIONS)
    session_id = await bridge.open_session()
    await bridge.request_call(session_id, dapp_name="<b>Dapp</b>")
    one = await console.page(SESSIONS)
    for _ in range(25):
        await bridge.open_session()
    first = await console.page(SESSIONS)
    after = re.search(r"\?after=(\d+)", first)
    assert after is not None
    second = await console.page(f"{SESSIONS}?after={after[1]}")

    assert 'lives: <a href="/docs/connect">' in nothing
    assert "No client of 2.x is subscribed to a topic." in nothing
    assert session_id not in one
    assert f"{session_id[:8]}…" in one
    assert "<bdi>&lt;b&gt;Dapp&lt;/b&gt;</bdi>" in one
    assert re.search(r'data-label="Calls waiting" class="number">1<', one)
    assert "No session lives." not in one
    assert (first.count('data-label="Dapp"'), second.count('data-label="Dapp"')) == (25, 1)
    assert (await console.get(f"{SESSIONS}?after=x")).status == 400


async def test_a_session_has_its_timeline_and_its_requests_until_the_operator_ends_it(
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
    place = await place_of(console)
    assert "The session is ended, with its calls." in await console.change(place, "end")
    assert (await bridge.session(session_id)).status == 404
    assert (await console.get(place)).status == 404


async def test_a_pairing_uri_is_drawn_once_and_not_kept(console: ConsoleClient, bridge: BridgeClient) -> None:
    await bridge.open_session()
    place = await place_of(console)
    drawn = await console.change(place, "qr", uri=f" {URI} ")

    (image,) = [attributes for tag, attributes in elements(drawn) if tag == "img"]
    assert image == {"class": "qr", "src": qr_image(URI), "alt": "QR code of the pairing URI"}
    kind, _, data = qr_image(URI).partition(",")
    text = base64.b64decode(data).decode() if kind.endswith("base64") else unquote(data)
    assert kind.startswith("data:image/svg+xml")
    assert "<svg" in text[:100]
    assert "script" not in text
    assert "key=41791102" not in drawn
    assert "data:image" not in await console.page(place)
    assert "41791102" not in await console.page("/console/traffic")
    for uri in ("", "https://example.org", "javascript:alert(1)", "wc:" + "x" * 2_000):
        answer = await console.send(place, "qr", uri=uri)
        assert answer.status == 400
        assert "A pairing URI" in answer.body.decode()


@pytest.fixture
async def proxied(tmp_path: Path) -> AsyncIterator[ConsoleClient]:
    """The console of a server behind a proxy, so that tests choose the addresses of clients."""
    async with running_server(
        tmp_path / "data", console=True, trusted_proxies=["127.0.0.1"], quota_exempt=["127.0.0.0/8"]
    ) as server:
        yield await ConsoleClient(server).sign_in()


async def ask_from(server: RunningServer, address: str, method: str, path: str) -> int:
    return (await ask(server, method, path, headers={"X-Forwarded-For": address})).status


def addresses(page: str) -> list[str]:
    return re.findall(r'<th scope="row" class="mono"><a [^>]*>([^<]*)</a>', page)


async def test_addresses_are_listed_by_the_figure_that_is_chosen(proxied: ConsoleClient) -> None:
    server = proxied.server
    for _ in range(3):
        await ask_from(server, "192.0.2.1", "GET", "/hello")
    await ask_from(server, "2001:db8::7", "POST", "/session/new")

    by_requests = await proxied.page(CLIENTS)
    by_sessions = await proxied.page(f"{CLIENTS}?by=sessions&last=start")
    link = re.search(r'href="(/console/clients/2001[^"]*)"', by_requests)
    assert link is not None
    network = await proxied.page(link[1].replace("&amp;", "&"))

    assert addresses(by_requests)[:2] == ["192.0.2.1", "2001:db8::/64"]
    assert addresses(by_sessions)[0] == "2001:db8::/64"
    assert 'href="/console/clients?by=sessions&amp;last=start" aria-current="true"' in by_sessions
    assert '<h2 class="mono">2001:db8::/64</h2>' in network
    assert 'aria-current="true">2001:db8::/64' in network


async def test_a_query_of_clients_that_means_nothing_says_so_and_the_list_stays(
    console: ConsoleClient,
) -> None:
    for query in ("?by=weight", "?last=2y", "?last="):
        answer = await console.get(CLIENTS + query)

        assert answer.status == 400
        assert "The query parameter" in answer.body.decode()
        assert 'id="list"' in answer.body.decode()
    nobody = await console.get(f"{CLIENTS}/nobody")
    assert nobody.status == 400
    assert "is no address of a client" in nobody.body.decode()
    assert "<code>quota_exempt</code>" in await console.page(f"{CLIENTS}/127.0.0.1")
    await console.get("/openapi.json")
    heavy = await console.page(f"{CLIENTS}?by=bytes")
    assert re.search(r'data-label="Bytes" class="number">\d+\N{NO-BREAK SPACE}\d{3}', heavy)
