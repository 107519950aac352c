"""Connections of generation 2.x: tokens, audiences, projects, addresses."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge_server.kernel.base64url import encode
from tests.pubsub.irn.conftest import Join
from tests.support.eventually import eventually
from tests.support.figures import METRICS_TOKEN, figure
from tests.support.irn_client import TOKEN_TIME, Identity, base58, irn_connected, topic_of
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server, server_process
from tests.support.socket_client import connected

TOPIC = topic_of("topic")
DAY = 86_400
HANDSHAKE = {
    "Upgrade": "websocket", "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}  # fmt: skip
KEYS_OF_SMALL_ORDER = [
    "01" + "00" * 31,
    "ec" + "ff" * 30 + "7f",
    "00" * 32,
    "00" * 31 + "80",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
]


async def refusal(server: RunningServer, token: str | None, path: str = "/compat/v2") -> tuple[int, Any]:
    """Status and problem of a handshake that is refused."""
    query = {} if token is None else {"auth": token}
    async with server.client.get(f"{server.url}{path}", params=query, headers=HANDSHAKE) as response:
        return response.status, await response.json()


async def refused_handshake(session: aiohttp.ClientSession, url: str, token: str) -> None:
    async with session.get(f"{url}/compat/v2", params={"auth": token}, headers=HANDSHAKE) as response:
        assert response.status == 401


async def test_a_token_may_be_a_bearer_token(server: RunningServer) -> None:
    headers = {"Authorization": f"Bearer {Identity().token()}"}
    async with server.client.ws_connect(server.url, headers=headers) as socket:
        await socket.send_str(
            f'{{"id":1,"jsonrpc":"2.0","method":"irn_subscribe","params":{{"topic":"{TOPIC}"}}}}'
        )

        assert (await socket.receive_json())["id"] == 1


@each_row(
    "times",
    [
        {"exp": None},
        {"exp": TOKEN_TIME + 7 * DAY},
        {"iat": TOKEN_TIME - DAY, "exp": TOKEN_TIME - 119},
        {"iat": TOKEN_TIME - DAY - 119, "exp": None},
        {"iat": TOKEN_TIME + 120, "exp": TOKEN_TIME + 200},
        {"iat": TOKEN_TIME - 10_000.5},
    ],
)
async def test_times_count_with_leeway(join: Join, times: dict[str, Any]) -> None:
    identity = Identity()

    client = await join(identity, token=identity.token(**times))

    assert await client.publish(TOPIC) is True


@each_row(
    "claims",
    [
        {"iat": TOKEN_TIME - DAY, "exp": TOKEN_TIME - 120},
        {"iat": TOKEN_TIME - DAY - 120, "exp": None},
        {"exp": TOKEN_TIME},
        {"iat": TOKEN_TIME + 10, "exp": TOKEN_TIME + 9},
        {"exp": TOKEN_TIME + 7 * DAY + 1},
        {"aud": ["ws://x"]},
        {"aud": []},
        {"aud": {"url": "ws://x"}},
        {"aud": 1},
        {"iat": TOKEN_TIME + 121},
        {"iat": None},
        {"iat": "1800000000"},
        {"exp": True},
        {"iss": None},
        {"iss": Identity().did},
        {"iss": "did:key:z6Mk"},
        {"iss": "did:key:" + "z" * 48},
        {"iss": "did:key:z0" + "a" * 46},
        {"iss": "did:web:example.org"},
        {"header": {"alg": "none", "typ": "JWT"}},
        {"header": {"alg": "HS256", "typ": "JWT"}},
        {"header": {"alg": "EdDSA", "typ": "JWE"}},
        {"header": {"alg": "EdDSA", "typ": 7}},
        {"header": {"alg": "EdDSA", "crit": ["x"]}},
        {"header": ["EdDSA"]},
    ],
)
async def test_a_wrong_token_is_refused_before_the_upgrade(
    server: RunningServer, claims: dict[str, Any]
) -> None:
    identity = Identity()

    status, problem = await refusal(server, identity.token(**claims))

    assert (status, problem["type"]) == (401, "urn:bridge-server:problem:invalid-relay-token")


@each_row("broken", ["", "x", "a.b", "a.b.c", "..", "é.b.c", "a" * 5_000])
async def test_a_text_that_is_no_token_is_refused(server: RunningServer, broken: str) -> None:
    assert (await refusal(server, broken))[0] == 401
    assert (await refusal(server, broken, path="/"))[0] == 401


@each_row("key", KEYS_OF_SMALL_ORDER)
async def test_a_key_for_which_everybody_can_sign_is_refused(server: RunningServer, key: str) -> None:
    client = "did:key:z" + base58(b"\xed\x01" + bytes.fromhex(key))
    signed = Identity().token(iss=client).rpartition(".")[0]
    signature = encode(b"\x01" + bytes(63))  # right for each of these keys, whatever is signed

    assert (await refusal(server, f"{signed}.{signature}"))[0] == 401


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory from /proc")
async def test_refused_tokens_take_no_memory(tmp_path: Path) -> None:
    identity, now = Identity(), int(time.time())
    nested: list[list[Any]] = [[] for _ in range(700)]
    refused = {"iat": now - 900, "exp": now - 600, "aud": nested}
    with server_process(tmp_path / "data") as process:
        async with aiohttp.ClientSession() as session:
            asking = partial(refused_handshake, session, process.url)
            for number in range(50):
                await asking(identity.token(sub=f"first {number}", **refused))
            before = memory_bytes(process.facts["pid"])
            for number in range(800):  # what they name would take 36 MB
                await asking(identity.token(sub=str(number), **refused))

            assert memory_bytes(process.facts["pid"]) - before < 24 * 2**20


def memory_bytes(pid: int) -> int:
    """The memory of a process that is not swapped out."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1_024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


async def test_a_changed_token_is_refused(server: RunningServer) -> None:
    head, claims, signature = Identity().token().split(".")
    other = Identity().token().split(".")[1]

    assert (await refusal(server, f"{head}.{other}.{signature}"))[0] == 401
    assert (await refusal(server, f"{head}.{claims}.{signature[:-4]}AAAA"))[0] == 401


async def test_without_a_token_the_path_of_the_generation_is_closed(server: RunningServer) -> None:
    assert (await refusal(server, None))[0] == 401


async def test_a_token_expires_also_once_it_was_checked(join: Join, server: RunningServer) -> None:
    identity = Identity()
    token = identity.token(exp=TOKEN_TIME + 60)
    await join(identity, token=token)
    await join(identity, token=token)

    server.clock.advance(180)

    assert (await refusal(server, token))[0] == 401


@each_row("path", ["/compat/v2", "/"])
async def test_browsers_see_a_page(server: RunningServer, path: str) -> None:
    async with server.client.get(f"{server.url}{path}") as response:
        assert (response.status, response.content_type) == (200, "text/html")


@each_row(
    ("public_url", "audience", "is_right"),
    [
        ("https://relay.example.org", "wss://relay.example.org", True),
        ("https://relay.example.org", "https://relay.example.org:443/any?x=1", True),
        ("https://relay.example.org:8443/", "wss://RELAY.example.org:8443", True),
        ("https://relay.example.org", "ws://relay.example.org", False),
        ("https://relay.example.org", "wss://relay.example.org:8443", False),
        ("https://relay.example.org", "wss://other.example.org", False),
        ("https://relay.example.org", "relay.example.org", False),
        ("https://relay.example.org", "wss://[", False),
        ("https://relay.example.org", None, False),
    ],
)
async def test_the_audience_is_checked_where_that_is_wanted(
    tmp_path: Path, public_url: str, audience: str | None, is_right: bool
) -> None:
    async with running_server(tmp_path, relay_check_audience=True, public_url=public_url) as server:
        identity = Identity()
        token = identity.token(aud=audience)
        if is_right:
            async with irn_connected(server.client, server.url, identity, token=token) as client:
                assert await client.publish(TOPIC) is True
        else:
            assert (await refusal(server, token))[0] == 401


async def test_without_a_public_url_the_audience_is_the_host_that_is_asked(tmp_path: Path) -> None:
    async with running_server(tmp_path, relay_check_audience=True) as server:
        identity = Identity()
        token = identity.token(aud=server.url.replace("http", "ws"))
        async with irn_connected(server.client, server.url, identity, token=token) as client:
            assert await client.publish(TOPIC) is True
        assert (await refusal(server, identity.token()))[0] == 401


@each_row("projects", ["q, p", ("p",)])
async def test_a_listed_project_may_connect(tmp_path: Path, projects: Any) -> None:
    async with (
        running_server(tmp_path, project_ids=projects) as server,
        irn_connected(server.client, server.url, Identity()) as client,
    ):
        assert await client.publish(TOPIC) is True


async def test_another_project_is_turned_away_for_good(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, project_ids="other", metrics_token=METRICS_TOKEN) as server,
        irn_connected(server.client, server.url, Identity()) as client,
    ):
        code, reason = await client.closed()

        assert (code, reason) == (
            3000,
            "This relay serves other projects. Check projectId with its operator.",
        )

        async def none_is_open() -> bool:
            return await figure(server, "sockets") == 0

        await eventually(none_is_open)


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
    settings = ("--set", "access_log=true", "--set", "log_level=debug")
    with server_process(tmp_path / "data", *settings) as process:
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
