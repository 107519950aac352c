"""`notification_id`: the first call says what is sent, later ones only to whom; for ever, and in a race."""

import asyncio
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from tests.support.project import DELIVERED, OFFERS, App, a_notification, accounts, look, opened_app
from tests.support.server import running_server
from tests.support.waiting import eventually, turns

A, B, C = accounts(3)


def key(spelled: str) -> str:
    return spelled.replace("eip155:1:", "eip155:")


def titles(app: App, spelled: str) -> list[str]:
    """The titles that have been delivered to an account."""
    return [title for who, title in look(app.server, DELIVERED) if who == key(spelled)]


def tokens_spent(app: App, spelled: str) -> int:
    """How many tokens of an account are spent by the server's default limit, as of now."""
    sql = """
    SELECT full_at_us FROM account_buckets JOIN accounts ON accounts.id = account_buckets.account
    WHERE accounts.account_key = ?
    """
    rows = look(app.server, sql, key(spelled))
    spent_us = rows[0][0] - app.server.clock.now_us() if rows else 0
    assert spent_us % 1_800_000_000 == 0
    return int(spent_us // 1_800_000_000)


def sent(*spelled: str) -> dict[str, list[str]]:
    return {"sent": list(spelled), "failed": [], "not_found": []}


async def test_a_repeat_sends_the_first_calls_text_only_to_accounts_that_it_has_not_reached(app: App) -> None:
    await app.subscribe(A, B, C)
    for _ in range(3):
        first = await app.notify([A], "x", title="first", url="https://example.org/first")
        assert first.json == sent(A)

    answer = await app.notify([A, B], "x", title="second", body="other", type=OFFERS)

    assert answer.json == sent(A, B)
    assert titles(app, A) == titles(app, B) == ["first"]
    assert titles(app, C) == []
    assert look(app.server, "SELECT title, body, url FROM notifications") == [
        ("first", "Body", "https://example.org/first")
    ]
    assert [tokens_spent(app, each) for each in (A, B, C)] == [1, 1, 0]


async def test_a_repeat_goes_by_the_type_of_the_first_call_and_must_be_well_formed(app: App) -> None:
    await app.subscribe(A, B)
    await app.subscribe(C, types=[OFFERS])
    await app.notify([A], "x")

    (await app.notify([B], "x", title="")).problem(400)
    assert titles(app, B) == []
    for type_id in (OFFERS, "nonsense"):
        failed = [{"account": C, "reason": "type_not_subscribed"}]
        answer = await app.notify([B, C], "x", type=type_id)
        assert answer.json == {"sent": [B], "failed": failed, "not_found": []}


async def test_a_first_call_fixes_the_content_without_recipients_but_not_when_it_is_refused(app: App) -> None:
    (await app.notify([A], "x", type="nonsense", title="refused")).problem(400)
    assert (await app.notify([A], "x", title="first")).json["not_found"] == [A]
    await app.subscribe(A)
    assert (await app.notify([A], "x", title="second")).json == sent(A)
    assert titles(app, A) == ["first"]


async def test_reached_account_is_reported_sent_whatever_has_become_of_it(app: App) -> None:
    await app.subscribe(A, B)
    await app.operator.projects.limit_accounts(app.project_id, per_hour=1, burst=1)
    await app.notify([A], "x")

    with_an_empty_bucket = await app.notify([A], "x")
    await app.subscribe(A, types=[OFFERS])
    without_the_type = await app.notify([A], "x")
    await app.unsubscribe(A, B)
    unsubscribed = await app.notify([A, B], "x")
    await app.subscribe(A)
    again = await app.notify([A], "x")

    assert with_an_empty_bucket.json == without_the_type.json == again.json == sent(A)
    assert unsubscribed.json == {"sent": [A], "failed": [], "not_found": [B]}
    assert titles(app, A) == ["Title"]


async def test_rate_limited_account_is_reached_by_a_repeat(app: App) -> None:
    await app.subscribe(A, B)
    await app.operator.projects.limit_accounts(app.project_id, per_hour=1, burst=1)
    await app.notify([A], title="before")

    first = await app.notify([A, B], "x", title="first")
    app.server.clock.advance(3_600)
    second = await app.notify([A, B], "x", title="second")

    assert first.json["sent"] == [B]
    assert second.json == sent(A, B)
    assert titles(app, A) == ["before", "first"]
    assert titles(app, B) == ["first"]


async def test_ids_differ_in_every_character_and_by_project(app: App, other_app: App) -> None:
    ids = ["x", "X", "x ", " x", "x\u0000", "é", "e\u0301", "null"]
    for each in (app, other_app):
        await each.subscribe(A)

    for notification_id in ids:
        await app.notify([A], notification_id, title=f"for {notification_id!r}")
    await other_app.notify([A], "x", title="of the other project")

    assert titles(app, A) == [*(f"for {each!r}" for each in ids), "of the other project"]


async def test_an_id_holds_for_ever_though_its_notification_is_gone(tmp_path: Path) -> None:
    rows = "SELECT 1 FROM deliveries UNION ALL SELECT 1 FROM sendings"
    async with running_server(tmp_path, sweep_interval=0.01) as server, opened_app(server) as app:
        await app.subscribe(A, B)
        await app.notify([A], "x", title="first")
        server.clock.advance(10 * 366 * 86_400)
        await eventually(lambda: look(server, rows) == [])

        assert (await app.notify([A, B], "x", title="second")).json == sent(A, B)
        assert titles(app, A) == []
        assert titles(app, B) == ["first"]


@pytest.mark.parametrize("calls", [2, 20])
async def test_first_calls_that_meet_make_one_notification(app: App, calls: int) -> None:
    everybody = accounts(10 + calls)
    await app.subscribe(*everybody)
    wanted = [[*everybody[:10], each] for each in everybody[10:]]

    answers = await asyncio.gather(*(app.notify(each, "x", title=f"to {each[-1]}") for each in wanted))

    assert [answer.json for answer in answers] == [sent(*each) for each in wanted]
    delivered = look(app.server, DELIVERED)
    assert Counter(who for who, _ in delivered) == Counter(key(each) for each in everybody)
    assert len({title for _, title in delivered}) == 1
    assert look(app.server, "SELECT count(*) FROM notifications") == [(1,)]
    assert look(
        app.server,
        "SELECT account_key FROM covered_accounts JOIN accounts ON accounts.id = account ORDER BY account",
    ) == [(key(each),) for each in everybody]
    assert {tokens_spent(app, each) for each in everybody} == {1}


async def test_exactly_the_accounts_reported_sent_have_the_notification_in_a_race(app: App) -> None:
    people = accounts(40)
    sent: Counter[tuple[str, str]] = Counter()
    await app.subscribe(*people[:20])
    all_sent = asyncio.Event()

    async def come_and_go() -> None:
        while not all_sent.is_set():
            await app.subscribe(*people[20:])
            await app.unsubscribe(*people[20:])

    async def send_all() -> None:
        for number in range(18):
            outcome = (await app.notify(people, title=f"title {number}")).json
            assert outcome["failed"] == []
            assert sorted(outcome["sent"] + outcome["not_found"]) == people
            sent.update((key(spelled), f"title {number}") for spelled in outcome["sent"])
        all_sent.set()

    await asyncio.gather(come_and_go(), send_all())

    assert Counter(look(app.server, DELIVERED)) == sent
    assert sent.total() >= 18 * 20
    assert sent.total() % 20 == 0


async def test_a_project_that_is_deleted_while_calls_are_made_ends_in_401(app: App) -> None:
    await app.subscribe(*accounts(10))

    async def delete() -> None:
        await app.operator.projects.delete(app.project_id)
        while await app.operator.projects.sweep(0):
            pass

    answers = await asyncio.gather(*(app.notify(accounts(10)) for _ in range(18)), delete())

    assert {answer.status for answer in answers if answer is not None} <= {200, 400, 401}
    assert (await app.notify(accounts(10))).status == 401


async def test_a_client_that_leaves_before_the_answer_is_sent_to_wholly_or_not_at_all(app: App) -> None:
    everybody = accounts(500)
    await app.subscribe(*everybody)
    body = {"notification": a_notification(), "accounts": everybody}
    headers = {"Authorization": f"Bearer {app.secret}"}
    url = app.server.url + app.paths["notify"]

    for steps in (0, 3, 10, 30, 100, 300):
        async with aiohttp.ClientSession() as client:
            call = asyncio.create_task(client.post(url, json=body, headers=headers))
            await turns(steps)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    answer = await app.notify(everybody)  # queued behind whatever was begun
    assert answer.json["sent"] == everybody
    per_account = look(app.server, "SELECT count(*) FROM deliveries GROUP BY account")
    assert per_account == look(app.server, "SELECT count(*) FROM sendings") * 500
