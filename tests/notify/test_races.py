"""Sending while others subscribe, leave, change limits and restart: each call as if it were alone."""

import asyncio
import itertools
from collections import Counter

import aiohttp

from bridge_server.settings.settings import Settings
from tests.support.eventually import turns
from tests.support.project import (
    DELIVERED,
    NEWS,
    App,
    a_notification,
    account,
    accounts,
    look,
    operator_beside,
    subscribe,
    unsubscribe,
)
from tests.support.server import RunningServer


async def test_exactly_the_accounts_reported_sent_have_the_notification_in_a_race(app: App) -> None:
    people = accounts(40)
    sent: Counter[tuple[str, str]] = Counter()
    await app.subscribe(*people[:20])
    all_sent = asyncio.Event()

    async def come_and_go() -> None:
        while not all_sent.is_set():
            await app.subscribe(*people[20:])
            await app.unsubscribe(*people[20:])

    async def send(title: str) -> None:
        outcome = (await app.notify(people, title=title)).json
        assert outcome["failed"] == []
        assert sorted(outcome["sent"] + outcome["not_found"]) == people
        sent.update((spelled, title) for spelled in outcome["sent"])

    async def send_all() -> None:
        for number in range(18):
            await send(f"title {number}")
        all_sent.set()

    await asyncio.gather(come_and_go(), send_all())

    found = Counter((f"eip155:1:{key[7:]}", title) for key, title in look(app.server, DELIVERED))
    assert found == sent
    assert sent.total() >= 18 * 20
    assert sent.total() % 20 == 0


async def test_a_limit_that_is_raised_while_calls_are_made_holds_for_each_of_them(app: App) -> None:
    await app.subscribe(account(1))
    projects = app.operator.projects
    await projects.limit_accounts(app.project_id, 0.001, 1)

    async def raise_limit() -> None:
        for burst in (2, 3, 4, 5):
            await projects.limit_accounts(app.project_id, 0.001, burst)

    answers = await asyncio.gather(*(app.notify([account(1)]) for _ in range(15)), raise_limit())

    sent = [answer for answer in answers if answer is not None and answer.json["sent"]]
    assert 1 <= len(sent) <= 5
    assert look(app.server, "SELECT count(*) FROM deliveries") == [(len(sent),)]


async def test_a_type_that_is_removed_while_calls_are_made_is_refused_or_delivered(app: App) -> None:
    await app.subscribe(account(1))

    answers = await asyncio.gather(
        *(app.notify([account(1)]) for _ in range(10)),
        app.operator.projects.remove_type(app.project_id, NEWS),
        *(app.notify([account(1)]) for _ in range(10)),
    )

    statuses = Counter(answer.status for answer in answers if answer is not None)
    assert statuses.keys() <= {200, 400}
    assert look(app.server, "SELECT count(*) FROM deliveries") == [(statuses[200],)]


async def test_a_project_that_is_deleted_while_calls_are_made_ends_in_401(app: App) -> None:
    await app.subscribe(*accounts(10))

    async def delete() -> None:
        await app.operator.projects.delete(app.project_id)
        while await app.operator.projects.sweep(0):
            pass

    answers = await asyncio.gather(*(app.notify(accounts(10)) for _ in range(18)), delete())

    assert {answer.status for answer in answers if answer is not None} <= {200, 400, 401}
    assert (await app.notify(accounts(10))).status == 401


async def test_two_operators_and_a_server_write_at_once_and_lose_nothing(
    app: App, server: RunningServer
) -> None:
    settings: Settings = server.settings
    people = [accounts(100, first=1 + 100 * number) for number in range(3)]
    await app.subscribe(*people[2])

    async def write(mine: list[str]) -> None:
        async with operator_beside(settings, server.clock) as operator:
            for _ in range(5):
                await subscribe(operator, app.project_id, mine)
                assert await unsubscribe(operator, app.project_id, *mine) == 100
            await subscribe(operator, app.project_id, mine)

    async def send() -> list[int]:
        return [len((await app.notify(people[2])).json["sent"]) for _ in range(18)]

    _, _, sent = await asyncio.gather(write(people[0]), write(people[1]), send())

    assert sent == [100] * 18
    assert (await app.listing()).json == sorted(itertools.chain(*people))
    assert look(server, "SELECT count(*) FROM deliveries") == [(1_800,)]


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
    sendings = look(app.server, "SELECT count(*) FROM sendings")
    assert set(per_account) == set(sendings)
    assert len(per_account) == 500
