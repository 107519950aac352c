"""Access to the wallet: by token or from this machine, under a known host name, not from web pages."""

from collections.abc import AsyncIterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import orjson
import pytest
import structlog

from tests.support.asking import Answer, ask, ask_raw, spell
from tests.support.rows import each_row
from tests.support.rpc_client import RpcClient
from tests.support.server import RunningServer, running_server

TOKEN = "of-the-wallet"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
BODY = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_accounts"})
PAGE = "https://dapp.example"
FORWARDED = {"X-Forwarded-For": "127.0.0.1"}


@pytest.fixture(scope="module")
async def with_token(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    """A wallet of development accounts that asks for a token, also of the page that it allows."""
    settings: dict[str, Any] = {"rpc_token": TOKEN, "dev_accounts": True, "rpc_origins": [PAGE]}
    async with running_server(tmp_path_factory.mktemp("token") / "data", **settings) as server:
        yield server


@pytest.fixture(scope="module")
async def configured(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    """A wallet behind trusted proxies, with names and a page of its own."""
    settings: dict[str, Any] = {
        "trusted_proxies": ["127.0.0.0/8", "10.0.0.0/8"], "rpc_hosts": ["wallet.example", "192.0.2.7"],
        "public_url": "https://bridge.example:8443", "rpc_origins": [PAGE],
    }  # fmt: skip
    async with running_server(tmp_path_factory.mktemp("proxies") / "data", **settings) as server:
        yield server


async def call(server: RunningServer, **headers: str) -> Answer:
    """The answer to a harmless call with these headers, underscores for hyphens."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await ask(server, "POST", "/rpc", BODY, sent)


async def test_a_forwarded_request_is_not_from_this_machine(rpc: RpcClient) -> None:
    for name, value in (
        ("X-Forwarded-For", "127.0.0.1"), ("Forwarded", "for=127.0.0.1"), ("X-Real-IP", "127.0.0.1"),
        ("x-forwarded-whatever", ""), ("Via", "1.1 proxy.example"), ("CF-Connecting-IP", "127.0.0.1"),
        ("True-Client-IP", "127.0.0.1"),
    ):  # fmt: skip
        answer = await call(rpc.server, **{name: value})
        assert "rpc_token" in answer.problem(403)["detail"], name


@each_row(("headers", "status"), [
    ({}, 200), ({"X-Forwarded-For": "127.0.0.1"}, 200), ({"X-Forwarded-For": "::1, 127.0.0.1"}, 200),
    ({"X-Forwarded-For": "198.51.100.7, 127.0.0.1"}, 403),
    ({"X-Forwarded-For": "127.0.0.1, 10.0.0.5"}, 403), ({"X-Forwarded-For": ""}, 403),
    ({"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=198.51.100.7"}, 403),
    ({"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https", "Via": "1.1 p"}, 200),
    ({"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1"}, 200),
    ({"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "198.51.100.7"}, 403),
    ({"X-Real-IP": "127.0.0.1"}, 403),
])  # fmt: skip
async def test_a_trusted_proxy_may_forward_for_clients_on_this_machine(
    configured: RunningServer, headers: dict[str, str], status: int
) -> None:
    assert (await call(configured, **headers)).status == status


async def test_requests_need_the_token_also_of_pages_and_behind_proxies(with_token: RunningServer) -> None:
    without = await call(with_token)
    wrong = ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN)
    for answer in (without, *[await call(with_token, Authorization=each) for each in wrong]):
        answer.problem(401)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert (await call(with_token, X_Forwarded_For="198.51.100.7", **AUTHORIZED)).status == 200
    (await call(with_token, Host="evil.example", **AUTHORIZED)).problem(403)
    page = await call(with_token, Origin=LOOPBACK[0])
    assert (page.status, page.headers["Access-Control-Allow-Origin"]) == (401, LOOPBACK[0])
    assert (await call(with_token, Origin=LOOPBACK[0], **AUTHORIZED)).status == 200


async def test_only_requests_to_a_name_of_this_machine_are_answered(rpc: RpcClient) -> None:
    for host in ("LocalHost:8080", "localhost.", "127.0.0.1", "127.1.2.3:1", "[::1]", "[::1]:80"):
        assert (await call(rpc.server, Host=host)).status == 200, host
    for host in (
        *("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example"),
        *("192.0.2.1", "0.0.0.0", "::1", "[::1", "localhost:80:80", "localhost@evil.example"),
        *("a b", "", "localhost,evil"),
    ):
        answer = await call(rpc.server, Host=host)
        assert "rpc_hosts" in answer.problem(403)["detail"], host

    body = b"POST /rpc HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    (await ask_raw(rpc.server, body)).problem(403)


async def test_host_names_and_pages_from_the_settings_are_answered(configured: RunningServer) -> None:
    for host in ("wallet.example", "Wallet.Example:8080", "bridge.example", "192.0.2.7"):
        assert (await call(configured, Host=host, **FORWARDED)).status == 200, host
    allowed = await call(configured, Origin=PAGE, **FORWARDED)
    other = await call(configured, Origin="https://other.example", **FORWARDED)
    assert (allowed.status, other.status) == (200, 403)
    assert allowed.headers["Access-Control-Allow-Origin"] == PAGE


LOOPBACK = [
    *("http://localhost:3000", "http://localhost", "https://localhost:8443"),
    *("http://127.0.0.1:5173", "http://127.8.0.1", "http://[::1]:8000"),
]


@each_row("origin", [
    *(PAGE, "null", "", "localhost", "http://localhost:3000/", "http://localhost:3000, http://localhost"),
    *("http://localhost.evil.example", "http://127.0.0.1.evil.example", "http://a@localhost"),
    *("http://[::2]", "ws://localhost", "http://0.0.0.0:3000", "http://192.168.0.7:3000"),
    "http://localhost:",
])  # fmt: skip
async def test_no_foreign_web_page_may_call(rpc: RpcClient, origin: str) -> None:
    answer = await call(rpc.server, Origin=origin)
    assert "rpc_origins" in answer.problem(403)["detail"]
    assert "Access-Control-Allow-Origin" not in answer.headers


@each_row("origin", LOOPBACK)
@pytest.mark.own_server
async def test_pages_of_this_machine_may_call_a_wallet_of_published_keys(rpc: RpcClient, origin: str) -> None:
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    answer = await call(rpc.server, Origin=origin)
    beforehand = await ask(rpc.server, "OPTIONS", "/rpc", headers=asked)
    assert (answer.status, beforehand.status) == (200, 204)
    for each in (answer, beforehand):
        assert each.headers["Access-Control-Allow-Origin"] == origin
        assert "Origin" in each.headers["Vary"]


@pytest.mark.parametrize("settings", [
    {"private_keys": "0x" + "11" * 32}, {"dev_accounts": False},
    {"dev_mnemonic": "legal winner thank year wave sausage worth useful legal winner thank yellow"},
    pytest.param(
        {"host": "0.0.0.0", "dev_accounts_public": True},
        marks=pytest.mark.sqlite("beside PostgreSQL such a wallet needs rpc_token"),
    ),
    {"trusted_proxies": ["10.0.0.0/8"], "dev_accounts_public": True},
    {"public_url": "https://bridge.example", "dev_accounts_public": True},
])  # fmt: skip
async def test_no_page_may_call_a_wallet_with_other_keys(tmp_path: Path, settings: dict[str, Any]) -> None:
    chosen: dict[str, Any] = {"dev_accounts": True, **settings}
    async with running_server(tmp_path / "data", **chosen) as server:
        answer = await call(server, Origin=LOOPBACK[0])
    assert "rpc_origins" in answer.problem(403)["detail"]


@pytest.mark.own_server
async def test_pages_of_this_machine_lose_access_to_a_wallet_that_may_have_other_keys(rpc: RpcClient) -> None:
    keystore = rpc.server.settings.keystore
    await rpc.call("personal_newAccount", "a passphrase")
    assert (await call(rpc.server, Origin=LOOPBACK[0])).status == 403
    rmtree(keystore)
    assert (await call(rpc.server, Origin=LOOPBACK[0])).status == 200
    keystore.write_text("no directory")
    assert (await call(rpc.server, Origin=LOOPBACK[0])).status == 403


def refusals(logs: list[Any]) -> list[tuple[str, int, int]]:
    """The log lines of refused requests: reason, count, and count of others."""
    lines = [line for line in logs if line["event"] == "rpc_refused"]
    assert all((line["client"], line["log_level"]) == ("127.0.0.1", "warning") for line in lines)
    return [(line["reason"], line["times"], line.get("others", 0)) for line in lines]


@pytest.mark.own_server
async def test_each_refusal_is_a_log_line_with_its_cure(rpc: RpcClient, with_token: RunningServer) -> None:
    preflight = {"Origin": "https://other.example", "Access-Control-Request-Method": "POST"}
    with_token.clock.advance(60)  # for a reason that was logged a moment ago there is no other line
    with structlog.testing.capture_logs() as logs:
        await call(rpc.server, Origin=LOOPBACK[0])
        await ask(rpc.server, "OPTIONS", "/rpc", headers={"Origin": LOOPBACK[0]})
        assert refusals(logs) == []
        await call(rpc.server, Origin=PAGE)
        await call(rpc.server, Host="evil.example")
        await call(rpc.server, Via="1.1 proxy")
        await ask(rpc.server, "OPTIONS", "/rpc", headers=preflight)
        await call(with_token, Authorization="Bearer x")

    cures = [
        f"Web pages of '{PAGE}' may not call the wallet. Allow them with the",
        "The wallet does not answer to the host 'evil.example': reach it as",
        "Without a token the wallet answers only callers on its own machine: set",
        "Web pages of 'https://other.example' may not call the wallet. Allow them",
        "The bearer token is missing or wrong: send the value of rpc_token from",
    ]
    for (reason, _, _), cure in zip(refusals(logs), cures, strict=True):
        assert reason.startswith(cure)
        assert TOKEN not in reason


@pytest.mark.own_server
async def test_a_repeated_refusal_is_one_log_line_a_minute_with_a_count(rpc: RpcClient) -> None:
    with structlog.testing.capture_logs() as logs:
        for seconds in (0, 30, 29.9, 0.1, 60):
            rpc.server.clock.advance(seconds)
            await call(rpc.server, Origin=PAGE)
    assert [times for _, times, _ in refusals(logs)] == [1, 3, 1]


@pytest.mark.own_server
async def test_a_stranger_cannot_fill_the_log(rpc: RpcClient) -> None:
    with structlog.testing.capture_logs() as logs:
        for number in range(50):
            await call(rpc.server, Origin=f"https://page-{number}.example")
        rpc.server.clock.advance(60)
        await call(rpc.server, Origin=PAGE)
    assert [(times, others) for _, times, others in refusals(logs)] == [(1, 0)] * 20 + [(1, 30)]


async def test_a_preflight_from_an_allowed_page_is_answered(with_token: RunningServer) -> None:
    asking = "Access-Control-Request"
    asked = {"Origin": PAGE, f"{asking}-Method": "POST", f"{asking}-Headers": "authorization,content-type"}
    allowed = await ask(with_token, "OPTIONS", "/rpc", headers=asked)
    other = await ask(with_token, "OPTIONS", "/rpc", headers={**asked, "Origin": "https://other.example"})
    assert allowed.status == 204
    told = [allowed.headers[f"Access-Control-Allow-{name}"] for name in ("Origin", "Methods", "Headers")]
    assert told == [PAGE, "POST", "authorization,content-type"]
    assert "Access-Control-Allow-Origin" not in other.headers


async def test_a_refusal_comes_before_the_body_is_read(rpc: RpcClient) -> None:
    head = spell("POST", "/rpc", b"", b"Content-Length: 1000", b"Content-Type: application/json")
    (await ask_raw(rpc.server, head)).problem(403)
