"""The control API of a headless wallet over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
import pytest

from bridge_server.kit.client import Generation, Pace, SessionEndedError
from bridge_server.kit.headless import HeadlessWallet
from bridge_server.kit.headless.control import ListeningError, control_api
from tests.headless.dapps import BRISK, FIRST, HELLO, PAGE, SECOND, dapp_at
from tests.support.rows import each_row
from tests.support.server import RunningServer


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


@asynccontextmanager
async def controlled(**options: Any) -> AsyncIterator[tuple[HeadlessWallet, Control]]:
    """A wallet with its control API."""
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
        await dapp.call("personal_sign", [HELLO, FIRST])
        _, changed = await control("PATCH", place, {"accounts": [1], "chain_id": 5})
        _, listed = await control("GET", "/sessions")
        _, ended = await control("DELETE", place)
        _, calls = await control("GET", "/calls?state=answered")
        with pytest.raises(SessionEndedError):
            await dapp.call("personal_sign", [HELLO, FIRST])

    has_page = generation in ("1.x", "2.x")
    assert session["generation"] == generation
    assert session["state"] == "approved"
    assert session["dapp"] == {"name": "Example Dapp", "url": PAGE if has_page else ""}
    assert (session["accounts"], session["chain_id"]) == ([FIRST], 31337)
    assert (changed["session"]["accounts"], changed["session"]["chain_id"]) == ([SECOND], 5)
    assert listed["sessions"] == [changed["session"]]
    assert (ended["session"]["state"], ended["session"]["ended_by"]) == ("ended", "wallet")
    (call,) = calls["calls"]
    assert call["session"] == session["id"]
    assert (call["method"], call["params"], call["text"]) == ("personal_sign", [HELLO, FIRST], "hello")
    assert call["origin"] == (PAGE if has_page else "Example Dapp")
    assert ["text", "hello"] in call["explanation"]


@each_row(
    ("verb", "body", "outcome"),
    [
        ("reject", {}, {"error": {"code": 4001, "message": "The user rejected the request."}}),
        ("reject", {"code": 7, "message": "no"}, {"error": {"code": 7, "message": "no"}}),
        ("answer", {"result": [None, {"a": 1}]}, {"result": [None, {"a": 1}]}),
        ("answer", {"result": None}, {"result": None}),
    ],
)
async def test_a_call_that_waits_is_decided(verb: str, body: Any, outcome: Any) -> None:
    async with controlled(rules=["odd_method=ask"]) as (_, control):
        asked = asyncio.create_task(control.ask("odd_method"))
        _, waiting = await control("GET", "/calls?state=pending&method=odd_method&wait=10")
        (call,) = waiting["calls"]
        status, decided = await control("POST", f"/calls/{call['id']}/{verb}", body)
        answer = await asked
        again, problem = await control("POST", f"/calls/{call['id']}/{verb}", body)

    assert (status, answer) == (200, outcome)
    assert {name: decided["call"][name] for name in outcome} == outcome
    assert (again, problem["type"]) == (409, "urn:bridge-server:problem:call-decided")


async def test_a_call_that_waits_is_approved() -> None:
    async with controlled(policy="ask") as (_, control):
        await control.ask("eth_requestAccounts")
        asked = asyncio.create_task(control.ask("personal_sign", [HELLO, FIRST]))
        _, waiting = await control("GET", "/calls?state=pending&wait=10")
        await control("POST", f"/calls/{waiting['calls'][0]['id']}/approve")
        answer = await asked

    assert len(answer["result"]) == 132


async def test_waiting_for_a_call_that_does_not_come_gives_an_empty_list() -> None:
    async with controlled() as (_, control):
        assert await control("GET", "/calls?state=pending&wait=0") == (200, {"calls": []})


async def test_rules_are_replaced() -> None:
    rules = ["a=answer:1*1", "a=reject"]
    async with controlled(rules=["a=answer:0"]) as (_, control):
        status, answer = await control("PUT", "/rules", rules)
        answers = [await control.ask("a") for _number in range(2)]
        listed = await control("GET", "/rules")
        await control("POST", "/reset")
        again = await control.ask("a")

    assert (status, answer) == (200, {"rules": rules})
    assert listed == (200, {"rules": rules})
    assert [answers[0], answers[1]["error"]["code"], again] == [{"result": 1}, 4001, {"result": 0}]


async def test_rules_of_which_one_cannot_be_read_change_nothing() -> None:
    async with controlled(rules=["a=answer:0"]) as (_, control):
        status, problem = await control("PUT", "/rules", ["a=answer:1", "b=dance", 3])
        unchanged = await control.ask("a")

    assert (status, [error["pointer"] for error in problem["errors"]]) == (400, ["#/1", "#/2"])
    assert "'b=dance' cannot be used: 'dance' is no action" in problem["detail"]
    assert unchanged == {"result": 0}


@each_row(
    ("method", "path", "body", "status", "said"),
    [
        ("POST", "/pair", {"uri": "https://example.org"}, 400, "A pairing URI begins with"),
        ("POST", "/pair", {}, 400, "#/uri"),
        ("POST", "/pair", b"[", 400, "not JSON"),
        ("POST", "/pair", {"uri": "wc:" + "a" * 9 + "@3"}, 400, "no known generation"),
        ("PATCH", "/sessions/none", {"chain_id": 1}, 404, "no such session"),
        ("DELETE", "/sessions/none", None, 404, "no such session"),
        ("POST", "/sessions/none/approve", None, 404, "no such session"),
        ("POST", "/calls/none/approve", None, 404, "no such call"),
        ("GET", "/calls?state=odd", None, 400, "must be one of deciding, pending"),
        ("GET", "/calls?wait=long", None, 400, "whole seconds"),
        ("PUT", "/rules", {}, 400, "must be an array"),
        ("POST", "/request", {"method": 1}, 400, "#/method"),
        ("POST", "/calls", None, 405, "not for this method"),
        ("GET", "/nowhere", None, 404, "no such route"),
    ],
)
async def test_a_bad_request_is_a_problem(method: str, path: str, body: Any, status: int, said: str) -> None:
    async with controlled() as (wallet, control):
        answered, problem = await control(method, path, body)

    assert (answered, problem["status"]) == (status, status)
    assert said in problem["detail"]
    assert (wallet.sessions, wallet.calls) == ([], [])


async def test_a_bridge_that_is_away_is_a_502() -> None:
    uri = "ethereum:wc-abc@1?name=Dapp&bridge=http%3A%2F%2F127.0.0.1%3A1&symKey=" + "A" * 43 + "="
    hasty = Pace(patience_seconds=0.05, first_retry_seconds=0.01)
    async with controlled(pace=hasty) as (wallet, control):
        status, problem = await control("POST", "/pair", {"uri": uri})

    assert (status, problem["type"]) == (502, "urn:bridge-server:problem:bridge-failed")
    assert wallet.sessions == []


@each_row(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": ""}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": "localhost:1"}, 200),
    ],
)
async def test_only_this_machine_and_only_with_the_token(headers: dict[str, str], status: int) -> None:
    async with controlled() as (_, control):
        answered, _ = await control("GET", "/sessions", headers=headers)

    assert answered == status


async def test_the_control_api_listens_on_loopback_alone() -> None:
    async with HeadlessWallet() as wallet:
        with pytest.raises(ListeningError, match=r"listen on 127\.0\.0\.1"):
            async with control_api(wallet, "0.0.0.0", 0):
                pass


async def test_a_session_that_asks_is_approved_or_rejected(
    relay: RunningServer, generation: Generation
) -> None:
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
    """The events from now on."""
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
        await dapp.call("personal_sign", [HELLO, FIRST])
        await dapp.end()
        told = [await anext(events) for _number in range(4)]

    assert [event["event"] for event in told] == ["paired", "session", "answer", "ended"]
    assert told[2]["call"]["state"] == "answered"


async def test_the_stream_ends_with_the_wallet() -> None:
    async with HeadlessWallet() as wallet, aiohttp.ClientSession() as http:
        async with control_api(wallet, "127.0.0.1", 0) as facts:
            headers = {"Authorization": f"Bearer {facts.token}"}
            response = await http.get(f"{facts.url}/events", headers=headers)
            await response.content.readline()
        async with asyncio.timeout(60):
            await response.content.read()
