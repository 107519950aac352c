"""The contract's answers, to the byte, and accounts in every spelling."""

from collections import Counter
from collections.abc import AsyncIterator

import orjson
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.support.asking import pointers
from tests.support.project import NEWS, OFFERS, App, account, accounts, look, opened_app
from tests.support.rows import each_row
from tests.support.server import running_server

SUBSCRIBED, HALF, STRANGER = accounts(3)


async def test_every_row_is_answered_to_the_letter(app: App) -> None:
    await app.subscribe(SUBSCRIBED)
    await app.subscribe(HALF, types=[NEWS])
    await app.notify([HALF])
    named = b'"accounts":' + orjson.dumps([SUBSCRIBED, HALF, STRANGER])
    notify = b'{"notification":{"type":"offers","title":"t","body":"b"},%b}' % named
    outcome = (
        f'{{"sent":["{SUBSCRIBED}"],"failed":[{{"account":"{HALF}","reason":"type_not_subscribed"}}],'
        f'"not_found":["{STRANGER}"]}}'
    )
    types = (
        f'{{"{SUBSCRIBED}":{{"notification_types":["news","offers"]}},'
        f'"{HALF}":{{"notification_types":["news"]}}}}'
    )

    for method, endpoint, sent, told in (
        ("POST", "mark all", None, '{"marked":1}'),
        ("POST", "notify", notify, outcome),
        ("POST", "mark all", b"\xff is no JSON and is not read", '{"marked":1}'),
        ("POST", "lookup", b"{%b}" % named, types),
        ("POST", "lookup", b'{"accounts":["%b"]}' % STRANGER.encode(), "{}"),
        ("GET", "listing", None, f'["{SUBSCRIBED}","{HALF}"]'),
        ("HEAD", "listing", None, ""),
    ):
        answer = await app.ask(method, app.paths[endpoint], sent)

        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
        assert answer.body.decode() == told


async def test_a_limited_account_is_reported_with_the_seconds_to_wait(app: App) -> None:
    await app.subscribe(SUBSCRIBED)
    await app.operator.projects.limit_accounts(app.project_id, per_hour=2, burst=1)
    await app.notify([SUBSCRIBED])

    answer = await app.notify([SUBSCRIBED])

    limited = f'{{"account":"{SUBSCRIBED}","reason":"rate_limited","retry_after":1800}}'
    assert answer.status == 200
    assert answer.body.decode() == f'{{"sent":[],"failed":[{limited}],"not_found":[]}}'


# The example of EIP-55, in several spellings.
CHECKSUMMED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
LOWER, UPPER = CHECKSUMMED.lower(), "0x" + CHECKSUMMED[2:].upper()
ONE = [
    f"eip155:1:{CHECKSUMMED}", f"eip155:1:{LOWER}", f"eip155:1:{UPPER}", f"eip155:137:{CHECKSUMMED}",
    f"eip155:{'9' * 32}:{LOWER}", f"eip155:0:{LOWER}", f"eip155:01:{UPPER}",
]  # fmt: skip
WRONG = "eip155:1:0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
ANOTHER = "eip155:1:0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
COSMOS, SOLANA = (
    "cosmos:cosmoshub-3:cosmos1t2uflqwqe0fsj0shcfkrvpukewcw40yjj6hdc0",
    "solana:4sGjMW1sUnHz:7S3P",
)


async def test_all_spellings_in_one_request_are_one_delivery_and_one_token(app: App) -> None:
    await app.subscribe(ONE[3])
    await app.operator.projects.limit_accounts(app.project_id, per_hour=1, burst=1)

    first = await app.notify([*ONE, ANOTHER])
    second = await app.notify(ONE)

    assert first.json == {"sent": ONE, "failed": [], "not_found": [ANOTHER]}
    limited = [{"account": spelled, "reason": "rate_limited", "retry_after": 3600} for spelled in ONE]
    assert second.json == {"sent": [], "failed": limited, "not_found": []}
    assert look(app.server, "SELECT count(*) FROM deliveries") == [(1,)]


@each_row("known", [COSMOS, SOLANA, "abc:A:b", "abcdefgh:" + "r" * 32 + ":" + "a" * 128])
async def test_accounts_of_other_namespaces_are_taken_to_the_letter(app: App, known: str) -> None:
    await app.subscribe(known)
    others = [other for other in (known[:-1] + "Z", known + "x", known.swapcase()) if other != known]
    valid = [other for other in others if other[:3].islower() and len(other.rsplit(":", 1)[1]) <= 128]
    answer = await app.notify([known, *valid])
    assert answer.json == {"sent": [known], "failed": [], "not_found": valid}
    assert list((await app.lookup([known, *valid])).json) == [known]


async def test_malformed_account_is_named_by_its_place(app: App) -> None:
    for wrong in (WRONG, CHECKSUMMED, "abc::x", ""):
        for answer in (await app.notify([ONE[0], wrong]), await app.lookup([ONE[0], wrong])):
            assert pointers(answer.problem(400)) == ["#/accounts/1"]

    await app.subscribe(ONE[0])
    for wrong in (WRONG, WRONG.replace("eip155:1:", "eip155:137:")):
        for named, places in (([wrong, ONE[0], wrong], (0, 2)), ([wrong, "", ANOTHER, ONE[0]], (0, 1))):
            problem = (await app.lookup(named)).problem(400)
            assert pointers(problem) == [f"#/accounts/{place}" for place in places]


POOL = {
    **{account(number): "sent" for number in range(1, 11)},
    **{account(number): "type_not_subscribed" for number in range(11, 16)},
    **{account(number): "not_found" for number in range(16, 21)},
    **dict.fromkeys(ONE, "sent"),
    ANOTHER: "type_not_subscribed",
    ANOTHER.lower(): "type_not_subscribed",
    COSMOS: "sent",
    COSMOS[:-1]: "not_found",
    SOLANA: "type_not_subscribed",
    SOLANA.replace("S3P", "s3p"): "not_found",
}
"""Accounts of every sort, each with what a request must be told of it."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool_app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    async with running_server(tmp_path_factory.mktemp("pool")) as server, opened_app(server) as app:
        await app.subscribe(*accounts(10), ONE[0], COSMOS)
        await app.subscribe(*accounts(5, first=11), ANOTHER, SOLANA, types=[OFFERS])
        yield app


@pytest.mark.asyncio(loop_scope="module")
@given(
    wanted=st.lists(st.sampled_from(sorted(POOL)), min_size=1, max_size=80),
    notification_id=st.sampled_from([None, None, "first", "second"]),
)
async def test_accounts_are_told_once(pool_app: App, wanted: list[str], notification_id: str | None) -> None:
    pool_app.server.clock.advance(3_600)

    outcome = (await pool_app.notify(wanted, notification_id)).json

    told = [
        *((spelled, name) for name in ("sent", "not_found") for spelled in outcome[name]),
        *((failure["account"], failure["reason"]) for failure in outcome["failed"]),
    ]
    assert outcome.keys() == {"sent", "failed", "not_found"}
    assert Counter(told) == Counter((spelled, POOL[spelled]) for spelled in set(wanted))
    looked_up = (await pool_app.lookup(wanted)).json
    assert looked_up.keys() == {spelled for spelled in wanted if POOL[spelled] != "not_found"}
