"""Signing in with Ethereum: the message, its signature, and the token that comes of it."""

import asyncio
from pathlib import Path

import orjson
import pytest

from tests.support.asking import ask, pointers
from tests.support.inbox_client import InboxClient, get_nonce, log_in, post_login, sign_in, sound_fields
from tests.support.project import look
from tests.support.rows import each_row
from tests.support.rpc_client import Wallet
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually

MINUTE_MS = 60_000
NONCE_MS = 600_000
SLACK_MS = 300_000
WALLET = Wallet(1)


async def is_signed_in(server: RunningServer, token: str) -> bool:
    answer = await ask(server, "GET", "/inbox/devices", headers={"Authorization": f"Bearer {token}"})
    assert answer.status in (200, 401)
    return answer.status == 200


@pytest.mark.own_server
async def test_a_nonce_is_new_letters_and_digits(server: RunningServer) -> None:
    answers = [await ask(server, "POST", "/inbox/nonce", body) for body in (None, b"{}", b"anything")]
    nonces = [answer.json["nonce"] for answer in answers]
    assert len(set(nonces)) == 3
    assert all(len(nonce) >= 17 and nonce.isascii() and nonce.isalnum() for nonce in nonces)
    assert {answer.json["expires_at"] for answer in answers} == {"2027-01-15T08:10:00.000Z"}


@pytest.mark.own_server
async def test_an_account_signs_in_for_30_days_and_no_longer_than_its_message(server: RunningServer) -> None:
    answer = (await log_in(server, WALLET)).json
    short = (await log_in(server, WALLET, expires_at_ms=server.clock.now_ms() + MINUTE_MS)).json

    assert answer.keys() == {"token", "account", "expires_at"}
    assert (answer["account"], answer["expires_at"]) == (WALLET.account, "2027-02-14T08:00:00.000Z")
    assert short["expires_at"] == "2027-01-15T08:01:00.000Z"
    assert [await is_signed_in(server, each["token"]) for each in (answer, short)] == [True, True]
    server.clock.advance(60)
    assert [await is_signed_in(server, each["token"]) for each in (answer, short)] == [True, False]


async def test_any_chain_will_do_and_is_shown_and_all_are_one_inbox(server: RunningServer) -> None:
    for chain_id, spelled in ((1, "1"), (137, "137"), (10**32 - 1, "9" * 32)):
        answer = (await log_in(server, WALLET, chain_id=chain_id)).json
        assert answer["account"] == f"eip155:{spelled}:{WALLET.address}"
        inbox = InboxClient(server, WALLET, answer["token"])
        await inbox.add_device("log")
        assert len(await inbox.devices()) == 1


async def test_the_server_answers_to_its_address_and_the_names_of_loopback(server: RunningServer) -> None:
    port = server.url.rpartition(":")[2]
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        domain = f"{name}:{port}"
        for scheme in (None, "http", "HTTP"):
            answer = await log_in(server, WALLET, domain=domain, uri=f"http://{domain}/login", scheme=scheme)
            assert answer.status == 200, answer


@each_row(
    "fields",
    [
        *({"domain": domain} for domain in ("example.org", "127.0.0.1:1", "localhost")),
        *({"domain": domain} for domain in ("localhost.example.org", "0.0.0.0")),
        {"scheme": "https"},
        *({"uri": uri} for uri in ("https://example.org/", "urn:isbn:1", "http://user@{}/", "https://{}/")),
    ],
)
@pytest.mark.own_server
async def test_a_message_for_elsewhere_is_refused(server: RunningServer, fields: dict[str, str]) -> None:
    own = server.url.removeprefix("http://")
    sent = {name: text.replace("{}", own) for name, text in fields.items()}

    message = WALLET.message(**{**sound_fields(server, await get_nonce(server)), **sent})
    body = orjson.dumps({"message": message, "signature": WALLET.sign(message)})
    host = sent.get("domain", own)  # a header of the client lends no domain
    problem = (await ask(server, "POST", "/inbox/login", body, {"Host": host})).problem(400)

    assert pointers(problem) == ["#/message"]
    assert "domain" not in fields or own in problem["errors"][0]["detail"]


async def test_a_public_url_and_configured_origins_say_who_may_ask(tmp_path: Path) -> None:
    rows: list[tuple[int, dict[str, str]]] = [
        (200, {"domain": "bridge.example", "uri": "https://bridge.example/x"}),
        (200, {"domain": "bridge.example:443", "uri": "https://bridge.example"}),
        (200, {"domain": "bridge.example", "uri": "https://bridge.example/", "scheme": "https"}),
        (200, {"domain": "app.example:8443", "uri": "https://app.example:8443/?a=b#c"}),
        (200, {"domain": "app.example:8443", "uri": "https://bridge.example/"}),
        (400, {"domain": "bridge.example", "uri": "https://bridge.example/", "scheme": "http"}),
        (400, {"domain": "app.example", "uri": "https://app.example/"}),
        (400, {"domain": "bridge.example", "uri": "http://bridge.example/"}),
        (400, {}),
    ]

    async with running_server(
        tmp_path, public_url="https://bridge.example/base", inbox_origins=["https://app.example:8443"]
    ) as server:
        for status, fields in rows:
            assert (await log_in(server, WALLET, **fields)).status == status, fields


async def test_a_nonce_signs_in_once(server: RunningServer) -> None:
    nonce = await get_nonce(server)

    answers = await asyncio.gather(*(log_in(server, Wallet(1 + n % 3), nonce=nonce) for n in range(12)))

    assert sorted(answer.status for answer in answers) == [200] + [401] * 11
    for refused in (nonce, "neverHandedOut12345", "a" * 128):
        answer = await log_in(server, WALLET, nonce=refused)
        assert answer.problem(401)["type"] == "urn:bridge-server:problem:sign-in-refused"
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_a_nonce_expires(server: RunningServer) -> None:
    for after_ms, status in ((NONCE_MS - 1, 200), (NONCE_MS, 401)):
        nonce = await get_nonce(server)
        server.clock.advance(after_ms / 1000)
        assert (await log_in(server, WALLET, nonce=nonce)).status == status


async def test_a_wrong_signature_is_refused_and_leaves_the_nonce(server: RunningServer) -> None:
    nonce = await get_nonce(server)
    message = WALLET.message(**sound_fields(server, nonce))
    signature = bytes.fromhex(WALLET.sign(message)[2:])
    curve_order = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
    high_s = (curve_order - int.from_bytes(signature[32:64])).to_bytes(32)
    twin = signature[:32] + high_s + bytes([55 - signature[64]])
    texts = ["", "0" * 130, "f" * 130, "0" * 131, "１" * 130, "0" * 130 + "\n", twin.hex()]

    for malformed in (*(f"0x{text}" for text in texts), None):
        assert pointers((await post_login(server, message, malformed)).problem(400)) == ["#/signature"]
    of_another = await post_login(server, message, Wallet(2).sign(message))
    assert Wallet(2).address in of_another.problem(401)["detail"]
    of_another_text = WALLET.sign(message.replace("Chain ID: 1", "Chain ID: 2"))
    (await post_login(server, message, of_another_text)).problem(401)
    (await log_in(server, WALLET, nonce=nonce, domain="example.org")).problem(400)

    assert (await post_login(server, message, f"0x{signature.hex()}")).status == 200


@each_row(
    ("name", "offset_ms", "status"),
    [
        ("issued_at_ms", SLACK_MS, 200),
        ("issued_at_ms", SLACK_MS + 1, 400),
        ("issued_at_ms", -NONCE_MS - SLACK_MS, 200),
        ("issued_at_ms", -NONCE_MS - SLACK_MS - 1, 400),
        ("expires_at_ms", 1, 200),
        ("expires_at_ms", 0, 400),
        ("expires_at_ms", -MINUTE_MS, 400),
        ("not_before_ms", 0, 200),
        ("not_before_ms", 1, 400),
    ],
)
async def test_a_message_has_its_time(server: RunningServer, name: str, offset_ms: int, status: int) -> None:
    answer = await log_in(server, WALLET, **{name: server.clock.now_ms() + offset_ms})
    assert answer.status == status
    if status == 400:
        assert pointers(answer.problem(400)) == ["#/message"]


async def test_every_fault_of_a_message_is_named_at_once(server: RunningServer) -> None:
    now_ms = server.clock.now_ms()
    elsewhere = {"domain": "example.org", "uri": "https://example.org/"}
    times = {"issued_at_ms": now_ms + 10 * MINUTE_MS, "expires_at_ms": now_ms, "not_before_ms": now_ms + 1}
    answer = await log_in(server, WALLET, **elsewhere, **times)
    assert pointers(answer.problem(400)) == ["#/message"] * 5


async def test_v_may_be_0_or_1_and_digits_may_be_capitals(server: RunningServer) -> None:
    for spell in (str.upper, str.lower):
        message = WALLET.message(**sound_fields(server, await get_nonce(server)))
        signature = WALLET.sign(message)
        parity = int(signature[-2:], 16) - 27
        spelled = f"0x{spell(signature[2:-2])}0{parity}"
        assert (await post_login(server, message, spelled)).status == 200


async def test_malformed_message_is_refused_with_its_signature(server: RunningServer) -> None:
    for message in ("", "hello", "\x00", "é" * 4_096, "\n" * 8_192, None):
        problem = (await post_login(server, message, "none")).problem(400)
        assert sorted(pointers(problem)) == ["#/message", "#/signature"]


async def test_a_message_has_plain_line_ends_and_at_most_eight_kibibytes(server: RunningServer) -> None:
    fields = sound_fields(server, await get_nonce(server))
    room = 8_192 - len(WALLET.message(**fields, statement=""))
    longest, longer = (WALLET.message(**fields, statement="a" * length) for length in (room, room + 1))
    assert len(longest) == 8_192

    for refused in (longer, longest.replace("\n", "\r\n"), WALLET.message(**fields).replace("\n", "\r\n")):
        answer = await post_login(server, refused, WALLET.sign(refused))
        assert pointers(answer.problem(400)) == ["#/message"]
    assert (await post_login(server, longest, WALLET.sign(longest))).status == 200


async def test_a_token_lasts_until_it_expires_or_is_logged_out(server: RunningServer) -> None:
    one, other = await sign_in(server), await sign_in(server)

    assert (await one.ask("POST", "/logout")).json == {"success": True}
    (await one.ask("POST", "/logout")).problem(401)
    for token in (one.token, "", "nonsense", "é", "a" * 43):
        answer = await ask(server, "GET", "/inbox/devices", headers={"Authorization": f"Bearer {token}"})
        assert answer.problem(401)["type"] == "urn:bridge-server:problem:not-authenticated"

    server.clock.advance(30 * 86_400 - 0.001)
    assert await is_signed_in(server, other.token)
    server.clock.advance(0.001)
    assert not await is_signed_in(server, other.token)


async def test_tokens_and_nonces_survive_a_restart(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        inbox, nonce, clock = await sign_in(server), await get_nonce(server), server.clock
    async with running_server(tmp_path, clock) as server:
        assert await is_signed_in(server, inbox.token)
        assert (await log_in(server, WALLET, nonce=nonce)).status == 200


async def test_signing_in_is_limited_by_address(tmp_path: Path) -> None:
    async with running_server(tmp_path, quota_exempt=()) as server:
        statuses = [(await ask(server, "POST", "/inbox/nonce")).status for _ in range(30)]
        refused = await ask(server, "POST", "/inbox/nonce")

        assert statuses == [200] * 30
        refused.problem(429)
        assert refused.headers["Retry-After"] == "2"
        (await post_login(server, "", "")).problem(429)


async def test_changes_of_subscriptions_are_limited_by_address(tmp_path: Path) -> None:
    async with running_server(tmp_path, quota_exempt=()) as server:
        inbox = await sign_in(server)
        methods = ["PUT", "DELETE"] * 30
        statuses = [(await inbox.ask(method, "/subscriptions/none")).status for method in methods]

        assert set(statuses) == {404}
        assert (await inbox.ask("PUT", "/subscriptions/none")).problem(429)["status"] == 429
        assert (await inbox.ask("GET", "/subscriptions")).status == 200


def rows(server: RunningServer) -> list[int]:
    """How many nonces there are, and how many tokens."""
    return [look(server, f"SELECT count(*) FROM {name}")[0][0] for name in ("sign_in_nonces", "inbox_tokens")]


async def test_nonces_and_tokens_are_deleted_once_they_have_expired(tmp_path: Path) -> None:
    async with running_server(tmp_path, sweep_interval=0.02) as server:
        for _ in range(5):
            await get_nonce(server)
        await sign_in(server)
        await sign_in(server, expires_at_ms=server.clock.now_ms() + 300_000)
        server.clock.advance(301)
        await get_nonce(server)
        await eventually(lambda: rows(server) == [6, 1])

        server.clock.advance(300)
        await eventually(lambda: rows(server) == [1, 1])

        server.clock.advance(30 * 86_400)
        await eventually(lambda: rows(server) == [0, 0])
