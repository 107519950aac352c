"""Walks through all subscribers: limits, crashes and restarts on the way, and nobody is sent to twice."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from bridge_server.kernel.clock import SystemClock
from bridge_server.kit.client import (
    BridgeUnreachableError,
    Notifier,
    NotifyProgress,
    NotifyResult,
    RequestRefusedError,
)
from bridge_server.settings.settings import Settings
from tests.client.gate import losing_the_answer
from tests.client.pairs import BRISK
from tests.support.engines import Rows, database_of, settings_over
from tests.support.loop_time import PassTime
from tests.support.project import (
    NEWS,
    OFFERS,
    App,
    account,
    accounts,
    look,
    operator_beside,
    subscribe,
)
from tests.support.server import server_process
from tests.support.webhook_receiver import WebhookReceiver, long_body, reset, status

TEXT = (NEWS, "ETH is up", "1 ETH costs 4,000 USD.")
CROWD = 10_000
_DELIVERED = "SELECT count(*), count(DISTINCT account) FROM deliveries"
_PROGRAM = """
import asyncio
import sys
from bridge_server.kit.client import Notifier

async def main(url, project, secret):
    async with Notifier(url, project, secret) as notifier:
        async for progress in notifier.notify_all("news", "ETH is up", "1 ETH costs 4,000 USD."):
            print(progress.id, progress.accounts, flush=True)
            sys.stdin.readline()

asyncio.run(main(*sys.argv[1:]))
"""


async def crowd(app: App, count: int = CROWD) -> None:
    """Subscribe the accounts 1 to `count`."""
    await app.subscribe(*accounts(count))


async def walked(
    walk: AsyncGenerator[NotifyProgress], app: App, pass_time: PassTime | None = None
) -> list[NotifyProgress]:
    """All that a walk yields. Its waits are over at once, by the server's clock as well."""
    seen, passing = [], set()
    async with aclosing(walk):
        async for progress in walk:
            seen.append(progress)
            if progress.waits_seconds and pass_time is not None:
                app.server.clock.advance(progress.waits_seconds)
                passing.add(asyncio.ensure_future(pass_time(progress.waits_seconds)))
    await asyncio.gather(*passing)
    return seen


def delivered(app: App) -> tuple[int, int]:
    """How many deliveries there are, and to how many accounts."""
    ((deliveries, recipients),) = look(app.server, _DELIVERED)
    return deliveries, recipients


async def test_everybody_gets_it_once_and_the_progress_says_so(app: App, notifier: Notifier) -> None:
    await crowd(app)
    await app.subscribe(account(7), types=[OFFERS])

    seen = await walked(notifier.notify_all(*TEXT), app)

    first, *calls = seen
    assert (first.accounts, first.total, first.result) == (0, None, None)
    assert {each.total for each in calls} == {CROWD}
    assert [each.accounts for each in calls] == list(range(500, CROWD + 1, 500))
    assert calls[-1] == NotifyProgress(
        first.id, account(CROWD), CROWD, CROWD, CROWD - 1, type_not_subscribed=1,
        result=NotifyResult(tuple(accounts(500, CROWD - 499))),
    )  # fmt: skip
    assert delivered(app) == (CROWD - 1, CROWD - 1)


async def test_a_project_without_subscribers_is_walked_through_at_once(app: App, notifier: Notifier) -> None:
    seen = await walked(notifier.notify_all(*TEXT, id="mine"), app)

    assert seen == [NotifyProgress("mine"), NotifyProgress("mine", total=0, result=NotifyResult())]


async def test_any_number_of_accounts_can_be_named(app: App, notifier: Notifier) -> None:
    await crowd(app, 700)

    seen = await walked(notifier.notify_all(*TEXT, to=[*accounts(800), account(1)]), app)

    assert (seen[-1].total, seen[-1].accounts, seen[-1].sent, seen[-1].not_found) == (800, 800, 700, 100)
    assert delivered(app) == (700, 700)


async def test_dry_run_of_a_walk_changes_nothing(app: App, notifier: Notifier) -> None:
    await crowd(app, 700)

    seen = await walked(notifier.notify_all(*TEXT, dry_run=True), app)

    assert (seen[-1].id, seen[-1].sent) == (None, 700)
    assert delivered(app) == (0, 0)


@pytest.mark.own_server  # in test mode subscribers may be listed more often
@pytest.mark.sqlite("hours pass in the loop of the server, whose exchanges with PostgreSQL have seconds")
async def test_the_servers_limits_are_waited_out(app: App, notifier: Notifier, pass_time: PassTime) -> None:
    await crowd(app, 2_000)
    assert [(await app.listing()).status for _ in range(3)] == [200, 200, 429]
    assert [(await app.notify([account(9_999)])).status for _ in range(21)] == [200] * 20 + [429]

    seen = await walked(notifier.notify_all(*TEXT), app, pass_time)

    waits = [each for each in seen if each.waits_seconds]
    assert waits
    assert all(each.waits_seconds < 10 and "notify calls" in each.because for each in waits)
    assert seen[-1].sent == 2_000
    assert delivered(app) == (2_000, 2_000)


@pytest.mark.own_server
async def test_nothing_is_listed_however_often_everybody_is_sent_to(app: App, notifier: Notifier) -> None:
    await crowd(app, 600)
    assert [(await app.listing()).status for _ in range(3)] == [200, 200, 429]

    walks = [await walked(notifier.notify_all(*TEXT), app) for _ in range(4)]

    assert not any(each.waits_seconds for walk in walks for each in walk)
    assert delivered(app) == (2_400, 600)


@pytest.mark.own_server
async def test_a_wrong_type_is_refused_before_anything_waits(app: App, notifier: Notifier) -> None:
    await crowd(app, 3)
    assert [(await app.listing()).status for _ in range(3)] == [200, 200, 429]
    walk = notifier.notify_all("weather", *TEXT[1:])
    assert (await anext(walk)).waits_seconds == 0

    with pytest.raises(RequestRefusedError, match="no notification type"):
        await anext(walk)


@pytest.mark.sqlite("hours pass in the loop of the server, whose exchanges with PostgreSQL have seconds")
async def test_a_storm_of_refusals_does_not_end_the_walk(
    app: App, gate: WebhookReceiver, gated: Notifier, pass_time: PassTime
) -> None:
    await crowd(app, 600)
    gate.script.extend([status(429, Retry_After="3600")] * 200)

    seen = await walked(gated.notify_all(*TEXT), app, pass_time)

    assert len([each for each in seen if each.waits_seconds]) == 200
    assert delivered(app) == (600, 600)


async def test_failures_on_the_way_send_to_nobody_twice(
    app: App, gate: WebhookReceiver, gated: Notifier
) -> None:
    await crowd(app, 2_000)
    walk = gated.notify_all(*TEXT)
    await anext(walk)
    gate.script.extend([status(503, Retry_After="0"), reset, losing_the_answer(gate.otherwise), status(502)])

    seen = await walked(walk, app)

    assert len([each for each in seen if each.waits_seconds]) == 4
    assert seen[-1].sent == 2_000
    assert delivered(app) == (2_000, 2_000)


async def test_a_server_that_stays_away_ends_the_walk(
    app: App, gate: WebhookReceiver, gated: Notifier, pass_time: PassTime
) -> None:
    await crowd(app, 600)
    gate.otherwise = status(503, Retry_After="100")

    with pytest.raises(BridgeUnreachableError, match="503"):
        await walked(gated.notify_all(*TEXT), app, pass_time)

    assert len(gate.requests) == 3


async def test_a_listing_that_breaks_off_goes_on_behind_the_last_account(
    app: App, gate: WebhookReceiver, gated: Notifier
) -> None:
    await crowd(app, 600)
    gate.script.append(long_body(1_000_000))
    gate.script.append(reset)

    with pytest.raises(Exception, match="no list of accounts"):
        await anext(gated.subscribers())
    assert [each async for each in gated.subscribers()] == accounts(600)


async def test_an_interrupted_walk_goes_on_with_its_id(
    app: App, notifier: Notifier, pass_time: PassTime
) -> None:
    await crowd(app, 2_000)
    async with aclosing(notifier.notify_all(*TEXT)) as walk:
        async for progress in walk:
            if progress.accounts == 1_000:
                break

    again = await walked(notifier.notify_all(*TEXT, id=progress.id), app)
    behind = await walked(notifier.notify_all(*TEXT, id=progress.id, after=progress.after), app, pass_time)

    assert (again[-1].sent, behind[-1].sent) == (2_000, 1_000)
    assert behind[-1].total is None
    assert delivered(app) == (2_000, 2_000)


async def test_a_later_walk_reaches_the_accounts_that_were_over_their_limit(
    app: App, notifier: Notifier
) -> None:
    await app.subscribe(*accounts(600))
    await app.operator.projects.limit_accounts(app.project_id, per_hour=1, burst=1)
    await notifier.notify(NEWS, "Earlier", "Body", [account(1), account(2)])

    first = (await walked(notifier.notify_all(*TEXT, id="walk"), app))[-1]
    app.server.clock.advance(3_600)
    second = (await walked(notifier.notify_all(*TEXT, id="walk"), app))[-1]

    assert (first.sent, first.rate_limited) == (598, 2)
    assert (second.sent, second.rate_limited) == (600, 0)
    assert delivered(app) == (602, 600)


async def test_a_project_that_is_deleted_meanwhile_ends_the_walk(app: App, notifier: Notifier) -> None:
    await crowd(app, 2_000)
    walk = notifier.notify_all(*TEXT)
    for _ in range(3):
        await anext(walk)
    await app.operator.projects.delete(app.project_id)

    with pytest.raises(RequestRefusedError, match="401"):
        await anext(walk)


async def test_a_bad_account_is_named_and_earlier_calls_stay(app: App, notifier: Notifier) -> None:
    await crowd(app, 600)

    with pytest.raises(RequestRefusedError, match="/accounts/100 must be an account id"):
        await walked(notifier.notify_all(*TEXT, to=[*accounts(600), "nonsense"]), app)

    assert delivered(app) == (500, 500)


async def test_a_killed_program_is_taken_up_again_by_its_id(app: App, notifier: Notifier) -> None:
    await crowd(app, 3_000)
    place = (app.server.url, app.project_id, app.secret)
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROGRAM, *place, stdin=PIPE, stdout=PIPE
    )
    assert program.stdin is not None
    assert program.stdout is not None
    for accounts_done in (0, 500, 1_000):
        walk_id, done = (await program.stdout.readline()).decode().split()
        assert int(done) == accounts_done
        program.stdin.write(b"\n")
    program.kill()
    await program.wait()

    seen = await walked(notifier.notify_all("unused", "unused", "unused", id=walk_id), app)

    assert seen[-1].sent == 3_000
    assert delivered(app) == (3_000, 3_000)
    assert look(app.server, "SELECT title FROM notifications") == [(TEXT[1],)]


async def test_a_killed_server_that_comes_back_is_waited_for(tmp_path: Path) -> None:
    settings = settings_over(tmp_path / "data")
    with server_process(tmp_path / "data") as process:
        async with operator_beside(settings, SystemClock()) as operator:
            project, secret = await operator.projects.create("App", "app")
            await operator.projects.add_type("app", "News", NEWS)
            await subscribe(operator, "app", accounts(3_000))
        async with Notifier(process.url, project.project_id, secret.secret, pace=BRISK) as notifier:
            last, waited = await _walk_with_a_crash(notifier, process.kill, process.start)

        assert (last.accounts, last.sent) == (3_000, 3_000)
        assert waited
        assert _deliveries(settings) == [(3_000, 3_000)]


async def _walk_with_a_crash(
    notifier: Notifier, kill: Callable[[], None], start: Callable[[], None]
) -> tuple[NotifyProgress, bool]:
    """The end of a walk whose server is killed after its second call, and whether the walk has waited."""
    waited = False
    async with aclosing(notifier.notify_all(*TEXT)) as walk:
        async for progress in walk:
            if progress.accounts == 1_000 and not waited:
                if not progress.waits_seconds:
                    kill()
                else:
                    waited = True
                    start()
    return progress, waited


def _deliveries(settings: Settings) -> Rows:
    with database_of(settings) as database:
        return database.execute(_DELIVERED)
