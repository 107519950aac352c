"""The control API of a headless wallet: sessions, calls, rules, events, pages (EIP-1193), and pictures."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import zxingcpp
from PIL import Image

from bridge_server.kit.client import Generation, Pace, SessionEndedError
from bridge_server.kit.headless import HeadlessWallet, SessionState
from bridge_server.kit.headless.control import ListeningError, control_api
from bridge_server.kit.headless.scan import ScanError, uri_in_picture
from bridge_server.kit.testing.fake_node import open_fake_node
from tests.headless.dapps import BRISK, FIRST, HELLO, PAGE, SECOND, SIGN, dapp_at
from tests.support.command import run_command
from tests.support.rows import each_row
from tests.support.server import RunningServer

URI = "wc:" + "5a" * 16 + "@1?bridge=https%3A%2F%2Fbridge.example&key=" + "0f" * 32


@dataclass(frozen=True, slots=True)
class Control:
    """A client of a control API."""

    url: str
    http: aiohttp.ClientSession

    async def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        """The status, and the JSON."""
        data = None if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        headers = {"Content-Type": "application/json", **options.pop("headers", {})}
        async with self.http.request(
            method, self.url + path, data=data, headers=headers, **options
        ) as response:
            return response.status, orjson.loads(await response.read())

    async def ask(self, method: str, params: Any = None, origin: str = PAGE) -> Any:
        """The outcome of a page's call."""
        body = {"method": method, "params": params or [], "origin": origin, "name": "Example"}
        status, answer = await self("POST", "/request", body)
        assert status == 200
        return answer

    async def refusal(self, method: str, params: Any = None, origin: str = PAGE) -> int:
        """The code of the error of a page's call."""
        code: int = (await self.ask(method, params, origin))["error"]["code"]
        return code


@asynccontextmanager
async def controlled(**options: Any) -> AsyncIterator[tuple[HeadlessWallet, Control]]:
    async with (
        HeadlessWallet(**{"pace": BRISK, **options}) as wallet,
        control_api(wallet, "127.0.0.1", 0) as facts,
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {facts.token}"}) as http,
    ):
        yield wallet, Control(facts.url, http)


async def test_a_session_from_pairing_to_end(relay: RunningServer, generation: Generation) -> None:
    async with controlled() as (_, control), dapp_at(relay.url, generation) as dapp:
        _, paired = await control("POST", "/pair", {"uri": dapp.uri, "relay_url": relay.url})
        session = paired["session"]
        place = f"/sessions/{session['id']}"
        await dapp.approval()
        await dapp.call(*SIGN)
        _, changed = await control("PATCH", place, {"accounts": [1], "chain_id": 5})
        _, listed = await control("GET", "/sessions")
        _, ended = await control("DELETE", place)
        _, calls = await control("GET", "/calls?state=answered")
        with pytest.raises(SessionEndedError):
            await dapp.call(*SIGN)

    has_page = generation in ("1.x", "2.x")
    assert (session["generation"], session["state"]) == (generation, "approved")
    assert session["dapp"] == {"name": "Example Dapp", "url": PAGE if has_page else ""}
    assert (session["accounts"], session["chain_id"]) == ([FIRST], 31337)
    assert (changed["session"]["accounts"], changed["session"]["chain_id"]) == ([SECOND], 5)
    assert listed["sessions"] == [changed["session"]]
    assert (ended["session"]["state"], ended["session"]["ended_by"]) == ("ended", "wallet")
    (call,) = calls["calls"]
    assert (call["method"], call["params"], call["text"]) == (*SIGN, "hello")
    assert (call["session"], call["origin"]) == (session["id"], PAGE if has_page else "Example Dapp")
    assert ["text", "hello"] in call["explanation"]


async def test_calls_that_wait_are_decided() -> None:
    rejection = {"code": 4001, "message": "The user rejected the request."}
    decisions: list[tuple[str, Any, dict[str, Any]]] = [
        ("reject", {}, {"error": rejection}),
        ("reject", {"code": 7, "message": "no"}, {"error": {"code": 7, "message": "no"}}),
        ("answer", {"result": [None, {"a": 1}]}, {"result": [None, {"a": 1}]}),
        ("answer", {"result": None}, {"result": None}),
    ]
    async with controlled(policy="ask", rules=["odd_method=ask"]) as (_, control):
        for verb, body, outcome in decisions:
            asked = asyncio.create_task(control.ask("odd_method"))
            _, waiting = await control("GET", "/calls?state=pending&method=odd_method&wait=60")
            (call,) = waiting["calls"]
            status, decided = await control("POST", f"/calls/{call['id']}/{verb}", body)
            assert (status, await asked) == (200, outcome)
            assert {name: decided["call"][name] for name in outcome} == outcome
            again, problem = await control("POST", f"/calls/{call['id']}/{verb}", body)
            assert (again, problem["type"]) == (409, "urn:bridge-server:problem:call-decided")

        await control.ask("eth_requestAccounts")
        assert await control("GET", "/calls?state=pending&wait=0") == (200, {"calls": []})
        asked = asyncio.create_task(control.ask(*SIGN))
        _, waiting = await control("GET", "/calls?state=pending&wait=60")
        await control("POST", f"/calls/{waiting['calls'][0]['id']}/approve")
        assert len((await asked)["result"]) == 132


async def test_rules_are_replaced_unless_one_of_them_cannot_be_read() -> None:
    rules = ["a=answer:1*1", "a=reject"]
    async with controlled(rules=["a=answer:0"]) as (wallet, control):
        refused, problem = await control("PUT", "/rules", ["a=answer:1", "b=dance", 3])
        assert (refused, [error["pointer"] for error in problem["errors"]]) == (400, ["#/1", "#/2"])
        assert "'b=dance' cannot be used: 'dance' is no action" in problem["detail"]
        assert await control.ask("a") == {"result": 0}, "no rule is replaced"

        assert await control("PUT", "/rules", rules) == (200, {"rules": rules})
        assert await control.ask("a") == {"result": 1}
        assert await control.refusal("a") == 4001
        assert await control("GET", "/rules") == (200, {"rules": rules})
        await control.ask("eth_requestAccounts")
        assert await control("POST", "/reset") == (200, {})
        assert (wallet.sessions, wallet.calls) == ([], [])
        assert await control.ask("eth_accounts") == {"result": []}
        assert await control.ask("a") == {"result": 0}, "the rules of the start are back"


async def test_a_bad_request_is_a_problem() -> None:
    away = "ethereum:wc-abc@1?name=Dapp&bridge=http%3A%2F%2F127.0.0.1%3A1&symKey=" + "A" * 43 + "="
    requests: list[tuple[str, str, Any, int, str]] = [
        ("POST", "/pair", {"uri": "https://example.org"}, 400, "A pairing URI begins with"),
        ("POST", "/pair", b"[", 400, "not JSON"),
        ("POST", "/pair", {"uri": "wc:" + "a" * 9 + "@3"}, 400, "no known generation"),
        ("POST", "/pair", {"uri": away}, 502, "bridge-failed: The bridge http://127.0.0.1:1 cannot be used"),
        ("PATCH", "/sessions/none", {"chain_id": 1}, 404, "no such session"),
        ("POST", "/calls/none/approve", None, 404, "no such call"),
        ("GET", "/calls?state=odd", None, 400, "must be one of deciding, pending"),
        ("GET", "/calls?wait=long", None, 400, "whole seconds"),
        ("PUT", "/rules", {}, 400, "must be an array"),
        ("POST", "/calls", None, 405, "not for this method"),
        ("GET", "/nowhere", None, 404, "no such route"),
    ]
    hasty = Pace(patience_seconds=0.05, first_retry_seconds=0.01)
    async with controlled(pace=hasty) as (wallet, control):
        for method, path, body, status, said in requests:
            answered, problem = await control(method, path, body)
            assert (answered, problem["status"]) == (status, status), path
            assert said in f"{problem['type']}: {problem['detail']}"
        assert (wallet.sessions, wallet.calls) == ([], [])


async def test_only_this_machine_and_only_with_the_token() -> None:
    async with controlled() as (_, control):
        for name, value, status in (
            *(("Authorization", each, 401) for each in ("Bearer wrong", "")),
            *(("Host", each, 403) for each in ("evil.example", "[::1")),
            ("Host", "localhost:1", 200),
        ):
            answered, _ = await control("GET", "/sessions", headers={name: value})
            assert answered == status, value


async def test_a_session_is_approved_or_rejected(relay: RunningServer, generation: Generation) -> None:
    async with controlled(session="ask") as (_, control):
        for verb, state in (("approve", "approved"), ("reject", "rejected")):
            async with dapp_at(relay.url, generation) as dapp:
                _, paired = await control("POST", "/pair", {"uri": dapp.uri, "relay_url": relay.url})
                assert paired["session"]["state"] == "proposed"
                place = f"/sessions/{paired['session']['id']}"
                async with events_of(control) as events:
                    await control("POST", f"{place}/{verb}")
                    decided = await anext(events)
                again, _ = await control("POST", f"{place}/{verb}")
                assert (decided["event"], decided["session"]["state"], again) == ("session", state, 409)


@asynccontextmanager
async def events_of(control: Control) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    async with control.http.get(f"{control.url}/events") as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        assert await response.content.readline() == b"retry: 1000\n"

        async def read() -> AsyncIterator[dict[str, Any]]:
            async for line in response.content:
                if line.startswith(b"data: "):
                    yield orjson.loads(line.removeprefix(b"data: "))

        yield read()


async def test_events_tell_what_happens(relay: RunningServer) -> None:
    async with controlled() as (_, control), dapp_at(relay.url, "1.x") as dapp, events_of(control) as events:
        await control("POST", "/pair", {"uri": dapp.uri})
        await dapp.call(*SIGN)
        await dapp.end()
        told = [await anext(events) for _number in range(4)]
    assert [event["event"] for event in told] == ["paired", "session", "answer", "ended"]
    assert told[2]["call"]["state"] == "answered"


async def test_the_control_api_listens_on_loopback_alone_and_the_stream_ends_with_the_wallet() -> None:
    async with HeadlessWallet() as wallet, aiohttp.ClientSession() as http:
        with pytest.raises(ListeningError, match=r"listen on 127\.0\.0\.1"):
            async with control_api(wallet, "0.0.0.0", 0):
                pass
        async with control_api(wallet, "127.0.0.1", 0) as facts:
            headers = {"Authorization": f"Bearer {facts.token}"}
            response = await http.get(f"{facts.url}/events", headers=headers)
            await response.content.readline()
        async with asyncio.timeout(60):
            await response.content.read()


@each_row("method", ["eth_requestAccounts", "wallet_requestPermissions"])
async def test_a_page_signs_with_its_accounts_once_it_asks_until_it_revokes_them(method: str) -> None:
    params: list[Any] = [{"eth_accounts": {}}] if method == "wallet_requestPermissions" else []
    async with controlled() as (wallet, control):
        assert await control.ask("eth_accounts") == {"result": []}
        assert await control.ask("wallet_getPermissions") == {"result": []}
        assert await control.refusal(*SIGN) == 4100
        assert await control.refusal("wallet_switchEthereumChain", [{"chainId": "0x1"}]) == 4100
        assert await control.ask("eth_chainId") == {"result": "0x7a69"}
        assert await control.ask("net_version") == {"result": "31337"}
        assert wallet.sessions == []

        connected = await control.ask(method, params)
        assert await control.ask("eth_accounts") == {"result": [FIRST]}
        assert method == "wallet_requestPermissions" or connected == {"result": [FIRST]}
        assert len((await control.ask(*SIGN))["result"]) == 132
        (session,) = wallet.sessions
        assert (session.generation, session.dapp.name, session.origin) == ("page", "Example", PAGE)
        assert await control.refusal(*SIGN, origin="https://other.example") == 4100
        assert await control.refusal("personal_sign", [HELLO, SECOND]) == 4100
        assert await control.refusal("personal_sign", [HELLO]) == -32602
        assert await control.ask("wallet_revokePermissions", [{"eth_accounts": {}}]) == {"result": None}
        assert await control.refusal(*SIGN) == 4100
        assert await control.ask("eth_requestAccounts") == {"result": [FIRST]}


async def test_a_page_is_rejected_and_may_ask_again() -> None:
    async with controlled(session="reject") as (wallet, control):
        for _number in range(2):
            assert await control.refusal("eth_requestAccounts") == 4001
        assert await control.refusal(*SIGN) == 4100
        assert wallet.sessions == []


async def test_a_page_waits_for_the_test_to_approve_its_session() -> None:
    async with controlled(session="ask") as (_, control), events_of(control) as events:
        asked = [asyncio.create_task(control.ask("eth_requestAccounts")) for _number in range(2)]
        session = (await anext(events))["session"]
        assert session["state"] == "proposed"
        await control("POST", f"/sessions/{session['id']}/approve")
        assert await asyncio.gather(*asked) == [{"result": [FIRST]}] * 2


async def test_changes_of_the_session_are_events_of_the_provider() -> None:
    async with controlled() as (wallet, control):
        await control.ask("eth_requestAccounts")
        (session,) = wallet.sessions
        async with events_of(control) as events:
            await control("PATCH", f"/sessions/{session.id}", {"accounts": [1, 0], "chain_id": 5})
            await control.ask("wallet_switchEthereumChain", [{"chainId": "0x1"}])
            await control("DELETE", f"/sessions/{session.id}")
            told = [await anext(events) for _number in range(9)]
        assert await control.ask("eth_accounts") == {"result": []}

    of_provider = [(event["event"], event["value"], event["origin"]) for event in told if "value" in event]
    assert of_provider == [
        ("chainChanged", "0x5", PAGE),
        ("accountsChanged", [SECOND, FIRST], PAGE),
        ("chainChanged", "0x1", PAGE),
        ("accountsChanged", [], PAGE),
        ("disconnect", {"code": 4900, "message": "The wallet disconnected."}, PAGE),
    ]


async def test_a_call_that_hangs_is_over_with_its_session() -> None:
    async with controlled(rules=["personal_sign=hang"]) as (wallet, control):
        await control.ask("eth_requestAccounts")
        (session,) = wallet.sessions
        hanging = asyncio.create_task(control.ask(*SIGN))
        await control("GET", "/calls?state=hanging&wait=60")
        await control("DELETE", f"/sessions/{session.id}")
        assert (await hanging)["error"]["code"] == 4900
    assert (session.state, [call.state for call in wallet.calls][-1]) == (SessionState.ENDED, "lost")


async def test_reading_methods_go_to_the_node_and_methods_that_sign_there_never() -> None:
    async with open_fake_node() as node, controlled(node_url=node.url) as (_, control):
        node.results["eth_blockNumber"] = "0x10"
        assert await control.ask("eth_blockNumber") == {"result": "0x10"}
        for method in ("odd_method", "personal_newAccount"):
            assert await control.refusal(method, ["secret"]) == -32601
        assert "personal_newAccount" not in node.methods
    async with controlled() as (_, control):
        without = (await control.ask("eth_blockNumber"))["error"]
    assert (without["code"], "--node-url" in without["message"]) == (4900, True)


def qr_code(text: str) -> Image.Image:
    """A QR code in grey, as a page shows it."""
    code = zxingcpp.create_barcode(text, zxingcpp.BarcodeFormat.QRCode)
    return Image.fromarray(code.to_image(scale=4, add_quiet_zones=True))


def png(picture: Image.Image, kind: str = "PNG") -> bytes:
    file = BytesIO()
    picture.save(file, kind)
    return file.getvalue()


def test_the_uri_of_a_qr_code_is_found_also_in_grey_of_16_bits() -> None:
    code = qr_code(URI)
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        assert uri_in_picture(png(code.convert(mode))) == URI, mode
    for dark, bright in ((0x00, 0xFF), (0x20, 0xA0)):
        grey = b"".join(bytes([0, bright if value else dark]) for value in code.tobytes())  # low byte first
        assert uri_in_picture(png(Image.frombytes("I;16", code.size, grey))) == URI, bright


@each_row(("content", "said"), [
    (b"<!DOCTYPE html>", "the picture is no PNG that can be read: give a screenshot"),
    (png(qr_code(URI), "GIF"), "the picture is no PNG that can be read: give a screenshot"),
    (png(qr_code(URI))[:200], "broken off or damaged"),
    (png(Image.new("1", (8_000, 8_000))), "8000 times 8000 pixels, which is none or too many"),
    (png(qr_code("https://example.org")), "not one of a pairing URI"),
    (png(Image.new("L", (8, 8))), "no QR code that can be read"),
], ids=["page", "gif", "truncated", "bomb", "other code", "no code"])  # fmt: skip
def test_a_picture_without_a_uri(content: bytes, said: str) -> None:
    with pytest.raises(ScanError, match=said):
        uri_in_picture(content)


async def test_pairing_by_a_picture_over_the_control_api(relay: RunningServer) -> None:
    headers = {"Content-Type": "image/png"}
    async with controlled() as (_, control), dapp_at(relay.url, "1.x") as dapp:
        picture = png(qr_code(dapp.uri))
        status, paired = await control("POST", "/pair", picture, headers=headers)
        broken, problem = await control("POST", "/pair", b"\x89PNG", headers=headers)
    assert (status, paired["session"]["state"]) == (200, "approved")
    assert (broken, "no PNG" in problem["detail"]) == (400, True)


@pytest.mark.parametrize("library", ["PIL", "zxingcpp"])
async def test_a_missing_library_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as where it is not installed
    async with controlled() as (_, control):
        status, problem = await control("POST", "/pair", b"", headers={"Content-Type": "image/png"})
    assert (status, "python -m pip install zxing-cpp pillow" in problem["detail"]) == (415, True)


def test_the_command_reads_a_picture_and_a_bridge_that_is_away_is_exit_code_1(tmp_path: Path) -> None:
    picture = tmp_path / "code.png"
    uri = URI.replace("https%3A%2F%2Fbridge.example", "http%3A%2F%2F127.0.0.1%3A1")
    picture.write_bytes(png(qr_code(uri)))
    finished = run_command("wallet", "--scan", picture, "--quiet")
    (line,) = finished.err.splitlines()
    assert line.startswith("bridge-server: The bridge http://127.0.0.1:1 cannot be used: ")
    assert finished.exit_code == 1
