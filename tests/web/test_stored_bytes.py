"""Quotas of bytes that clients store over HTTP: per address and in all, and how they come back."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import fields
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.web.limits import Cost, Quotas, SavedBucket, StoredBytes, storage_limit
from tests.support.asking import Answer, ask
from tests.support.bridge_client import BridgeClient
from tests.support.clock import ManualClock
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver, hang

ADDRESS, OTHER = "192.0.2.1", "192.0.2.2"
HOUR = 3_600
FAR = "https://example.org/hook"


def limited(data_dir: Path, **settings: Any) -> AbstractAsyncContextManager[RunningServer]:
    """A thousand bytes per address; addresses are reported by a proxy."""
    usual = {"quota_exempt": (), "trusted_proxies": "127.0.0.1", "payload_bytes_per_address": 1_000}
    return running_server(data_dir, **{**usual, **settings})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with limited(tmp_path / "data") as server:
        yield server


async def send(
    server: RunningServer, method: str, path: str, body: bytes | None = None, address: str = ADDRESS
) -> Answer:
    return await ask(server, method, path, body, headers={"X-Forwarded-For": address})


def payload(size_bytes: int) -> bytes:
    """A JSON string of so many bytes, its quotes among them."""
    return b'"%b"' % (b"x" * (size_bytes - 2))


async def call(server: RunningServer, session_id: str, size_bytes: int, address: str = ADDRESS) -> Answer:
    body = b'{"encryptionPayload":%b,"dappName":"Dapp"}' % payload(size_bytes)
    return await send(server, "POST", f"/session/{session_id}/call/new", body, address)


async def put(server: RunningServer, session_id: str, size_bytes: int, address: str = ADDRESS) -> Answer:
    body = b'{"encryptionPayload":%b}' % payload(size_bytes)
    return await send(server, "PUT", f"/session/{session_id}", body, address)


def left(answer: Answer) -> str:
    """The remaining payload bytes, as the answer declares them."""
    return answer.headers["RateLimit"].partition('"payload-bytes";')[2].partition(";")[0]


async def test_every_payload_is_charged_with_its_size(server: RunningServer) -> None:
    session_id = await server.open_session()
    answers = [await put(server, session_id, 100), await call(server, session_id, 200)]
    path = f"/call-status/{answers[1].json['callId']}/new"
    answers.append(await send(server, "POST", path, b'{"encryptionPayload":{"data":"x"}}'))
    push = b'{"encryptionPayload":"","push":{"type":"fcm","token":"abc","webhook":"%b"}}' % FAR.encode()
    answers.append(await send(server, "PUT", f"/session/{session_id}", push))
    assert [answer.status for answer in answers] == [200] * 4
    sizes = (100, 200, len(b'{"data":"x"}'), 2 + len("fcm" + "abc" + FAR))
    assert [left(answer) for answer in answers] == [f"r={1_000 - spent}" for spent in accumulate(sizes)]
    policy = answers[1].headers["RateLimit-Policy"]
    assert '"requests";' in policy
    assert '"payload-bytes";q=1000;w=3600' in policy


async def test_a_payload_too_many_is_429_stores_nothing_and_spends_nothing(server: RunningServer) -> None:
    session_id = await server.open_session()
    assert (await call(server, session_id, 900)).status == 200
    refused = [await call(server, session_id, 200) for _ in range(3)]
    for answer in refused:
        assert "1000 payload bytes" in answer.problem(429)["detail"]
        assert (left(answer), answer.headers["Retry-After"]) == ("r=100", "360")
    assert len((await send(server, "GET", f"/session/{session_id}/calls")).json) == 1
    assert (await call(server, session_id, 100)).status == 200


async def test_bytes_come_back_over_the_lifetime_of_a_call(tmp_path: Path) -> None:
    async with limited(tmp_path / "data", call_ttl=100) as server:
        session_id = await server.open_session()
        answers = [await call(server, session_id, size_bytes) for size_bytes in (1_000, 500)]
        for seconds in (49.9, 0.1):
            server.clock.advance(seconds)
            answers.append(await call(server, session_id, 500))
    assert [answer.status for answer in answers] == [200, 429, 429, 200]
    assert answers[1].headers["Retry-After"] == "50"


async def test_each_address_has_a_bucket_for_both_generations(server: RunningServer) -> None:
    session_id = await server.open_session()
    emptied = [await put(server, session_id, 5_000), await put(server, session_id, 10)]
    other = await put(server, session_id, 10, OTHER)
    path, body = f"/session/{session_id}", b'{"encryptionPayload":%b}'
    third, fourth = "192.0.2.3", "192.0.2.4"
    invalid = await send(server, "POST", f"{path}/call/new", body % payload(900), third)
    valid = await call(server, session_id, 1_000, third)
    shared = [
        await send(server, "PUT", f"/compat/v0.7{path}", body % payload(1_000), fourth),
        await put(server, session_id, 10, fourth),
    ]

    assert [answer.status for answer in emptied] == [200, 429], "a payload larger than the bucket empties it"
    assert (left(emptied[0]), other.status) == ("r=0", 200)
    assert (invalid.status, valid.status) == (400, 200)
    assert [answer.status for answer in shared] == [200, 429]


async def test_all_clients_together_have_a_bucket_and_the_exempt_are_among_them(tmp_path: Path) -> None:
    limits = {"payload_bytes_per_address": 500, "payload_bytes_in_all": 1_000}
    async with limited(tmp_path / "data", quota_exempt=(OTHER,), **limits) as server:
        session_id = await server.open_session()
        assert (await put(server, session_id, 900, OTHER)).status == 200
        refused = [await put(server, session_id, 200, address) for address in (OTHER, ADDRESS)]
        for answer in refused:
            assert "1000 all payload bytes" in answer.problem(429)["detail"]
            assert answer.headers["Retry-After"] == "360"
        taken = await put(server, session_id, 100)
        assert (left(refused[1]), taken.status, left(taken)) == ("r=500", 200, "r=400")


async def test_the_webhooks_of_a_call_are_charged_to_its_client(server: RunningServer) -> None:
    session_id = await server.open_session()
    bridge = BridgeClient(server)
    for number in range(3):
        assert (await bridge.subscribe(session_id, f"{FAR}/{number}")).status == 200
    answers = [await call(server, session_id, 10) for _ in range(5)]
    each = 10 + 3 * (len(f"{FAR}/0") + len(f'{{"topic":"{session_id}"}}'))
    assert [answer.status for answer in answers] == [200] * 4 + [429]
    assert len((await send(server, "GET", f"/session/{session_id}/calls")).json) == 4
    assert left(await put(server, session_id, 2)) == f"r={1_000 - 4 * each - 2}"


async def test_a_payload_that_is_not_stored_costs_nothing(tmp_path: Path) -> None:
    async with limited(tmp_path / "data", max_pending_calls=1, max_topic_webhooks=1) as server:
        session_id = await server.open_session()
        hook = b'{"topic":"a","webhook":"https://example.org/%d"}'
        await send(server, "POST", "/subscribe", hook % 1)

        body = b'{"encryptionPayload":%b}' % payload(900)
        answers = [
            await put(server, "nothing", 900),
            await call(server, "nothing", 900),
            await send(server, "POST", "/call-status/a/new", body),
            await call(server, session_id, 100),
            await call(server, session_id, 500),
            await send(server, "POST", "/subscribe", hook % 2),
        ]

        assert [answer.status for answer in answers] == [404, 404, 404, 200, 429, 409]
        assert left(await put(server, session_id, 2)) == "r=898"
        renewed = await send(server, "POST", "/subscribe", hook % 1)
        size = len("a" + "https://example.org/1")
        assert f'"subscription-bytes";r={64 * 2**20 - 2 * size};' in renewed.headers["RateLimit"]


async def test_subscriptions_have_a_bucket_of_their_own_for_as_long_as_they_live(tmp_path: Path) -> None:
    async with limited(
        tmp_path / "data", subscription_bytes_per_address=100, public_url="https://bridge.example.org"
    ) as server:
        session_id = await server.open_session()
        hook = b'{"topic":"a","webhook":"https://example.org/%b"}'
        client = b'{"bridge":"https://bridge.example.org","topic":"a","type":"log","token":"device",'
        client += b'"peerName":"Dapp","language":"en"}'
        answers = [
            await send(server, "POST", "/new", client),
            await send(server, "POST", "/subscribe", hook % (b"x" * 25)),
            await send(server, "POST", "/subscribe", hook % b"y"),
            await send(server, "POST", "/new", client),
            await put(server, session_id, 100),
        ]
        server.clock.advance(30 * 86_400)
        answers.append(await send(server, "POST", "/subscribe", hook % b"y"))

    assert [answer.status for answer in answers] == [200, 200, 429, 429, 200, 200]
    size = len("https://bridge.example.org" + "a" + "log" + "device" + "Dapp" + "en")
    assert f'"subscription-bytes";r={100 - size};' in answers[0].headers["RateLimit"]
    assert '"subscription-bytes";q=100;w=2592000' in answers[0].headers["RateLimit-Policy"]


async def test_a_registration_that_its_client_gives_up_at_another_bridge_costs_nothing(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = hang
    settings = {"allow_private_webhooks": True, "public_url": "https://bridge.example.org"}
    async with limited(tmp_path / "data", subscription_bytes_per_address=100, **settings) as server:
        client = b'{"bridge":"%b","topic":"a","type":"log","token":"%b","peerName":"Dapp","language":"en"}'
        abroad = client % (receiver.url("").encode(), b"x" * 50)
        registering = asyncio.create_task(send(server, "POST", "/new", abroad))
        await receiver.got(1)
        hook = b'{"topic":"a","webhook":"https://example.org/%b"}' % (b"x" * 60)
        held = await send(server, "POST", "/subscribe", hook)

        registering.cancel()

        async def is_taken() -> bool:
            return (await send(server, "POST", "/subscribe", hook)).status == 200

        assert held.status == 429
        await eventually(is_taken)
        assert server.rows("SELECT topic FROM push_registrations") == []


def test_a_limit_counts_in_bytes_that_come_back_in_its_window() -> None:
    for size_bytes, window_seconds, window_us in (
        (1, 1, 10**6), (360_000_000, HOUR, HOUR * 10**6), (360_000_001, HOUR, HOUR * 10**6 + 10),
        (64 * 2**40, HOUR, 64 * 2**30),
    ):  # fmt: skip
        limit = storage_limit("a", size_bytes, window_seconds)
        assert (limit.name, limit.burst, limit.window_us) == ("a-bytes", size_bytes, window_us)


@each_row(("before", "after"), [(1_000, 4 * 2**30), (4 * 2**30, 1_000)])
async def test_spent_bytes_stay_spent_when_the_limit_changes(before: int, after: int) -> None:
    quotas, limit = Quotas(ManualClock()), storage_limit("own", before, HOUR)
    stored = StoredBytes(quotas, lambda _: ADDRESS, limit, storage_limit("all", 2**50, HOUR))
    request = make_mocked_request("PUT", "/session/one")
    stored.bill(request, 600)
    changed = storage_limit("own", after, HOUR)
    for each in fields(limit):
        setattr(limit, each.name, getattr(changed, each.name))
    stored.bill(request, 1)
    left = quotas.standing((limit.name, ADDRESS), limit).spending.remaining
    assert after - 601 - left in (0, 1, 2)  # each charge is rounded up to a microsecond


async def test_buckets_of_both_former_units_are_restored(tmp_path: Path) -> None:
    file, clock = tmp_path / "bridge.sqlite3", ManualClock()
    migrate(file, packaged_migrations()[:8])
    rows = [
        ("own-bytes", ADDRESS, clock.now_us() + 600 * 3_600_000, 3_600_000),
        ("own-bytes", OTHER, clock.now_us() + 9 * 3_600_000, 3_600_000),
        ("own-kibibytes", OTHER, clock.now_us() + 858 * 1_024, 858),
        ("requests", ADDRESS, clock.now_us() + 10**6, 7),
    ]
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executemany("INSERT INTO buckets VALUES (?, ?, ?, ?)", rows)

    migrate(file, packaged_migrations())

    with closing(sqlite3.connect(file)) as connection:
        columns = "limit_name, key, full_at_us, interval_us"
        restored = [SavedBucket(*row) for row in connection.execute(f"SELECT {columns} FROM buckets")]
    assert [bucket.interval_us for bucket in restored if bucket.limit_name == "requests"] == [7]
    for address, size_bytes, left_bytes in ((ADDRESS, 1_000, 400), (OTHER, 2**32, 2**32 - 2**20)):
        quotas, limit = Quotas(clock), storage_limit("own", size_bytes, HOUR)
        quotas.restore(bucket for bucket in restored if bucket.key == address)
        assert quotas.standing(("own-bytes", address), limit).spending.remaining == left_bytes


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_bucket_is_saved_after_each_hundredth_and_in_the_last_commit_unless_full(is_slow: bool) -> None:
    clock, bucket, limit = ManualClock(), ("a-bytes", "key"), storage_limit("a", 1_000, HOUR)
    quotas = Quotas(clock)

    def saved() -> list[tuple[str, str]]:
        """The buckets that the next commit saves."""
        buckets = [(saved.limit_name, saved.key) for saved in quotas.take_unsaved()]
        quotas.saved()
        return buckets

    outcomes = []
    for size_bytes in (9, 1, 9, 1, 100, 5):
        if is_slow or quotas.take([(bucket, limit)], size_bytes) is None:
            quotas.charge_costs((Cost("key", limit, size_bytes),))
        outcomes.append(saved())
    assert outcomes == [[], [bucket], [], [bucket], [bucket], []]

    quotas.forget_nothing()
    assert saved() == [bucket]
    clock.advance(HOUR)
    quotas.forget_nothing()
    assert saved() == []
