"""Generation 2.x: tokens, audiences, projects, addresses; how sockets are kept and how they end.

White-box: how long a locked file is waited for and a goodbye may take has no setting.
"""

import asyncio
import sqlite3
import time
from contextlib import AsyncExitStack, ExitStack, closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge_server.kernel.background import running
from bridge_server.kernel.base64url import encode
from bridge_server.web.sockets import MOST_BUFFERED_BYTES
from tests.pubsub.conftest import Join, error_of, irn_opened, until_open
from tests.support.asking import METRICS_TOKEN, figure
from tests.support.clock import PassTime
from tests.support.rows import each_row
from tests.support.server import RunningServer, reached, running_server, server_process
from tests.support.socket_client import (
    TOKEN_TIME,
    Identity,
    IrnClient,
    base58,
    connected,
    irn_connected,
    topic_of,
)
from tests.support.waiting import eventually, locked

TOPIC = topic_of("topic")
DAY = 86_400
HANDSHAKE = {
    "Upgrade": "websocket", "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}  # fmt: skip


async def refusal(server: RunningServer, token: str | None, path: str = "/compat/v2") -> tuple[int, Any]:
    """Status and problem of a handshake that is refused."""
    query = {} if token is None else {"auth": token}
    async with server.client.get(f"{server.url}{path}", params=query, headers=HANDSHAKE) as response:
        return response.status, await response.json()


async def test_times_count_with_leeway_and_a_token_may_be_a_bearer_token(
    join: Join, server: RunningServer
) -> None:
    for times in (
        {"exp": TOKEN_TIME + 7 * DAY},
        {"iat": TOKEN_TIME - DAY, "exp": TOKEN_TIME - 119},
        {"iat": TOKEN_TIME - DAY - 119, "exp": None},
        {"iat": TOKEN_TIME + 120, "exp": TOKEN_TIME + 200},
    ):
        identity = Identity()
        client = await join(identity, token=identity.token(**times))
        assert await client.publish(TOPIC) is True, times
    headers = {"Authorization": f"Bearer {Identity().token()}"}
    async with server.client.ws_connect(server.url, headers=headers, autoping=False) as socket:
        await IrnClient(socket).settled()


@each_row(
    "claims",
    [
        {"iat": TOKEN_TIME - DAY, "exp": TOKEN_TIME - 120},
        {"iat": TOKEN_TIME - DAY - 120, "exp": None},
        {"exp": TOKEN_TIME},
        {"iat": TOKEN_TIME + 10, "exp": TOKEN_TIME + 9},
        {"exp": TOKEN_TIME + 7 * DAY + 1},
        {"aud": ["ws://x"]},
        {"iat": TOKEN_TIME + 121},
        {"iat": None},
        {"exp": True},
        {"iss": Identity().did},
        {"iss": "did:key:z6Mk"},
        {"iss": "did:key:" + "z" * 48},
        {"iss": "did:key:z0" + "a" * 46},
        {"iss": "did:web:example.org"},
        {"header": {"alg": "none", "typ": "JWT"}},
        {"header": {"alg": "EdDSA", "typ": "JWE"}},
        {"header": {"alg": "EdDSA", "crit": ["x"]}},
        {"header": ["EdDSA"]},
    ],
)
async def test_a_wrong_token_is_refused_before_the_upgrade(
    server: RunningServer, claims: dict[str, Any]
) -> None:
    status, problem = await refusal(server, Identity().token(**claims))
    assert (status, problem["type"]) == (401, "urn:bridge-server:problem:invalid-relay-token")


async def test_a_text_that_is_no_token_and_one_that_anybody_can_sign_are_refused(
    server: RunningServer,
) -> None:
    head, claims, signature = Identity().token().split(".")
    other_claims = Identity().token().split(".")[1]
    texts = ["", "a.b", "a.b.c", "é.b.c", "a" * 5_000]
    forged = encode(b"\x01" + bytes(63))  # right for each of the keys, whatever is signed
    texts += [f"{head}.{other_claims}.{signature}", f"{head}.{claims}.{signature[:-4]}AAAA"]
    for key in (  # of small order
        "01" + "00" * 31,
        "ec" + "ff" * 30 + "7f",
        "00" * 32,
        "00" * 31 + "80",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    ):
        client = "did:key:z" + base58(b"\xed\x01" + bytes.fromhex(key))
        signed = Identity().token(iss=client).rpartition(".")[0]
        texts.append(f"{signed}.{forged}")

    for text in texts:
        assert (await refusal(server, text))[0] == 401, text
        assert (await refusal(server, text, path="/"))[0] == 401, text
    assert (await refusal(server, None))[0] == 401


async def test_a_token_expires_also_once_it_was_checked(join: Join, server: RunningServer) -> None:
    identity = Identity()
    token = identity.token(exp=TOKEN_TIME + 60)
    await join(identity, token=token)
    await join(identity, token=token)
    server.clock.advance(180)

    assert (await refusal(server, token))[0] == 401


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory from /proc")
async def test_refused_tokens_take_no_memory(tmp_path: Path) -> None:
    identity, now = Identity(), int(time.time())
    nested: list[list[Any]] = [[] for _ in range(700)]
    with server_process(tmp_path / "data") as process:

        async def refuse(tokens: int) -> None:
            async with reached(process) as server:
                for number in range(tokens):
                    claims = {"sub": f"{tokens} {number}", "iat": now - 900, "exp": now - 600, "aud": nested}
                    token = identity.token(**claims)
                    assert (await refusal(server, token))[0] == 401

        await refuse(50)
        before = memory_bytes(process.facts["pid"])
        await refuse(800)  # what they name would take 36 MB
        assert memory_bytes(process.facts["pid"]) - before < 24 * 2**20


def memory_bytes(pid: int) -> int:
    """The memory of a process that is not swapped out."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1_024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


@each_row("path", ["/compat/v2", "/compat/v1"])
async def test_browsers_see_a_page(server: RunningServer, path: str) -> None:
    async with server.client.get(f"{server.url}{path}") as response:
        assert (response.status, response.content_type) == (200, "text/html")


@each_row(
    ("public_url", "right", "wrong"),
    [
        (
            "https://relay.example.org",
            "https://relay.example.org:443/any?x=1",
            [
                "ws://relay.example.org",
                "wss://relay.example.org:8443",
                "wss://other.example.org",
                "wss://[",
                None,
            ],
        ),
        ("https://relay.example.org:8443/", "wss://RELAY.example.org:8443", []),
        (None, None, ["ws://x"]),
    ],
)
async def test_the_audience_is_checked_where_that_is_wanted(
    tmp_path: Path, public_url: str | None, right: str | None, wrong: list[str | None]
) -> None:
    """Without a public URL it is the host that is asked."""
    async with running_server(tmp_path, relay_check_audience=True, public_url=public_url) as server:
        identity = Identity()
        token = identity.token(aud=right or server.url.replace("http", "ws"))
        async with irn_connected(server.client, server.url, identity, token=token) as client:
            assert await client.publish(TOPIC) is True
        for audience in wrong:
            assert (await refusal(server, identity.token(aud=audience)))[0] == 401, audience


async def test_a_listed_project_may_connect_and_another_is_turned_away_for_good(tmp_path: Path) -> None:
    async with irn_opened(tmp_path / "q", 1, project_ids="q, p") as (_, (client,)):
        assert await client.publish(TOPIC) is True
    settings: dict[str, Any] = {"project_ids": "other", "metrics_token": METRICS_TOKEN}
    async with irn_opened(tmp_path / "other", 1, **settings) as (server, (client,)):
        reason = "This relay serves other projects. Check projectId with its operator."
        assert await client.closed() == (3000, reason)
        await until_open(server, 0)


async def test_sockets_of_both_generations_count_to_their_address(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, max_sockets=2, quota_exempt=(), metrics_token=METRICS_TOKEN) as server,
        connected(server.client, server.url),
        irn_connected(server.client, server.url, Identity()),
    ):
        for query in ("", f"?auth={Identity().token()}"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await server.client.ws_connect(f"{server.url}/{query}")
            assert refused.value.status == 429
        assert await figure(server, "sockets") == 2


async def test_nothing_of_tokens_and_messages_is_logged(tmp_path: Path) -> None:
    identity, now = Identity(), int(time.time())
    token = identity.token(iat=now, exp=now + 60)
    with server_process(tmp_path / "data", "--set", "access_log=true", "--set", "log_level=debug") as process:
        async with aiohttp.ClientSession() as session:
            async with irn_connected(session, process.url, identity, token=token) as client:
                await client.publish(TOPIC, "secret message")
                await client.socket.send_str("secret frame")
                await client.closed()
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect(f"{process.url}/?auth=wrong-token")
        process.stop()

    output = process.log()
    assert "server_stopped" in output
    secrets = [identity.did[8:], token, token[-20:], "secret", "wrong-token", TOPIC]
    assert [secret for secret in secrets if secret in output] == []


async def test_sockets_and_topics_are_counted_and_forgotten(join: Join, server: RunningServer) -> None:
    one, two = await join(), await join()
    await one.subscribe(TOPIC, topic_of("other"))
    await two.subscribe(TOPIC)
    await until_open(server, 2, 2)
    await one.socket.close()
    await until_open(server, 1, 1)
    await two.socket.close()

    await until_open(server, 0, 0)


async def test_a_socket_is_pinged_and_a_dead_one_is_given_up(tmp_path: Path, pass_time: PassTime) -> None:
    settings: dict[str, Any] = {"heartbeat": 20.0, "metrics_token": METRICS_TOKEN}
    async with irn_opened(tmp_path, 2, **settings) as (server, (alive, dead)):
        await dead.subscribe(TOPIC)

        async def one_is_left() -> bool:
            await pass_time(20)
            await alive.settled()
            return await figure(server, "sockets") == 1

        await eventually(one_is_left)
        assert await alive.publish(TOPIC) is True


@pytest.mark.sqlite("another program holds its file")
async def test_a_socket_is_not_dead_while_the_disk_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.storage.connection.BUSY_TIMEOUT_SECONDS", 60.0)
    async with irn_opened(tmp_path, 2, heartbeat=1.0) as (server, (dapp, idle)):
        with locked(server.settings.database_file):
            publication = {"topic": TOPIC, "message": "message", "ttl": 60}
            await dapp.send(id=1, jsonrpc="2.0", method="irn_publish", params=publication)
            settling = asyncio.create_task(dapp.settled())
            for _ in range(3):
                await idle.socket.pong((await idle.socket.receive(60)).data)

        await settling
        assert await dapp.answer(1) is True


async def test_a_stopping_server_says_goodbye_and_loses_nothing(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as client, AsyncExitStack() as stack:
        async with running_server(tmp_path) as server:
            dapp = await stack.enter_async_context(irn_connected(client, server.url, Identity()))
            await dapp.publish(TOPIC)
            goodbye = asyncio.ensure_future(dapp.closed())
            await asyncio.sleep(0)
        assert await goodbye == (1001, "The server stops. Connect again.")
    async with irn_opened(tmp_path, 1, clock=server.clock) as (_, (wallet,)):
        await wallet.subscribe(TOPIC)
        assert await wallet.messages(1) == ["message"]


async def test_a_slow_reader_is_closed_with_a_code_after_which_clients_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.web.sockets._GOODBYE_SECONDS", 60.0)
    refused = {"topics": [topic_of(str(number)) for number in range(500)]}
    async with irn_opened(
        tmp_path, 1, max_client_topics=1, messages_burst=10_000, metrics_token=METRICS_TOKEN
    ) as (server, (slow,)):

        async def ask() -> None:
            for number in range(400):  # 28 MB of refusals: more than the kernel takes for a client
                await slow.send(id=number, jsonrpc="2.0", method="irn_batchSubscribeBlocking", params=refused)

        async def too_much_is_unread() -> bool:
            return await figure(server, "unread_bytes") > MOST_BUFFERED_BYTES

        async with running(ask()):  # once it is closed, the server reads nothing more
            await eventually(too_much_is_unread)
            assert await slow.closed() == (1001, "You read too slowly. Connect again for the rest.")


@pytest.mark.sqlite("another program locks the file")
async def test_a_database_locked_for_long_closes_a_socket_with_1001(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.storage.connection.BUSY_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr("bridge_server.pubsub.v2_journal._PATIENCE_SECONDS", 0.2)
    async with irn_opened(tmp_path, 1) as (server, (dapp,)):
        with locked(server.settings.database_file):
            await dapp.send(id=1, jsonrpc="2.0", method="irn_subscribe", params={"topic": TOPIC})
            await dapp.socket.ping()

            assert (await dapp.closed())[0] == 1001


@pytest.mark.sqlite("another program locks the file")
async def test_a_stop_refuses_what_cannot_be_stored_in_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.pubsub.v2_journal._LAST_SECONDS", 0.0)
    calls, topics = 35, 500
    async with aiohttp.ClientSession() as client, AsyncExitStack() as stack:
        lock = stack.enter_context(ExitStack())
        async with running_server(tmp_path, max_client_topics=100_000) as server:
            wallet = await stack.enter_async_context(irn_connected(client, server.url, Identity()))
            lock.enter_context(locked(server.settings.database_file))
            for call in range(calls):
                params = {"topics": [topic_of(f"{call} {number}") for number in range(topics)]}
                await wallet.send(id=call, jsonrpc="2.0", method="irn_batchSubscribe", params=params)
            await error_of(wallet.ask("irn_unknown"))  # after which every call has been heard

            async def release() -> None:
                assert await wallet.closed() == (1001, "The server stops. Connect again.")
                lock.close()

            releasing = asyncio.create_task(release())
        await releasing

    with closing(sqlite3.connect(server.settings.database_file)) as connection:
        ((stored,),) = connection.execute("SELECT count(*) FROM irn_subscriptions").fetchall()
    assert stored < calls * topics
    assert stored % topics == 0
