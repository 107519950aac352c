"""`Notifier` against a server: what it sends, retries and refuses, and walks through all subscribers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from bridge_server.kit import client
from bridge_server.kit.client import FailedAccount, Notifier, NotifyProgress, NotifyResult, SubscribedAccount
from tests.client.gate import BROKEN, NOT_NOW, losing_the_answer, saying
from tests.client.pairs import BRISK
from tests.support import project
from tests.support.clock import PassTime
from tests.support.engines import database_of, settings_over
from tests.support.project import NEWS, OFFERS, App, account, accounts, look
from tests.support.rows import each_row
from tests.support.server import server_process
from tests.support.webhook_receiver import WebhookReceiver, long_body, reset, status

TEXT = (NEWS, "ETH is up ☂ 🚀", "مرحبا, 1 ETH costs 4,000 USD.")
CROWD = 3_000
_DELIVERED = "SELECT count(*), count(DISTINCT account) FROM deliveries"


def delivered_to(app: App) -> tuple[int, int]:
    """How many deliveries there are, and to how many accounts."""
    ((deliveries, recipients),) = look(app.server, _DELIVERED)
    return deliveries, recipients


async def test_the_result_has_each_account_once(app: App, notifier: Notifier) -> None:
    await app.subscribe(account(1))
    await app.subscribe(account(2), types=[OFFERS])
    await app.operator.projects.limit_accounts(app.project_id, per_hour=2, burst=1)
    result = await notifier.notify(*TEXT, accounts(3), url="https://a.example/é")
    again = await notifier.notify(*TEXT, [account(1)])
    failed = FailedAccount(account(2), "type_not_subscribed")
    assert result == NotifyResult((account(1),), (failed,), (account(3),))
    assert look(app.server, project.DELIVERED) == [(account(1).replace(":1:", ":"), TEXT[1])]
    assert again.failed == (FailedAccount(account(1), "rate_limited", 1_800),)


async def test_subscribers_and_lookup(app: App, notifier: Notifier) -> None:
    assert [each async for each in notifier.subscribers()] == []
    assert await notifier.lookup([]) == {}
    crowd = accounts(230)
    await app.subscribe(*crowd[:220])
    await app.subscribe(account(1), types=[OFFERS])
    found = await notifier.lookup(crowd)
    assert [each async for each in notifier.subscribers()] == crowd[:220]
    assert [each async for each in notifier.subscribers(after=account(218))] == crowd[218:220]
    assert list(found) == crowd[:220]
    assert found[account(1)] == SubscribedAccount(account(1), (OFFERS,))
    assert found[account(2)].notification_types == (NEWS, OFFERS)


async def test_a_request_that_fails_is_repeated(app: App, gate: WebhookReceiver, gated: Notifier) -> None:
    await app.subscribe(account(1))
    gate.script.extend(NOT_NOW.values())
    await gated.notify(*TEXT, [account(1)])
    assert not gate.script
    assert delivered_to(app) == (1, 1)
    for failure in (*BROKEN.values(), losing_the_answer(gate.otherwise)):
        gate.script.append(failure)
        with pytest.raises(client.BridgeUnreachableError, match="may have taken"):
            await gated.notify(*TEXT, [account(1)])
    assert delivered_to(app) == (2, 1)
    gate.script.extend([*BROKEN.values(), losing_the_answer(gate.otherwise)])
    assert (await gated.notify(*TEXT, [account(1)], id="first")).sent == (account(1),)
    assert delivered_to(app) == (3, 1)

    gate.script.extend([*NOT_NOW.values(), *BROKEN.values()])
    assert list(await gated.lookup([account(1)])) == [account(1)]
    gate.script.extend([*NOT_NOW.values(), *BROKEN.values()])
    assert [each async for each in gated.subscribers()] == [account(1)]
    gate.script.extend(BROKEN.values())
    assert (await gated.notify(*TEXT, [account(1)], dry_run=True)).sent == (account(1),)


async def test_a_wrong_secret_and_an_unknown_project_are_refused(app: App) -> None:
    for project_id, secret in ((app.project_id, "bsk_wrong"), ("nobody", app.secret)):
        async with Notifier(app.server.url, project_id, secret, pace=BRISK) as stranger:
            for attempt in (
                stranger.notify(*TEXT, [account(1)]),
                stranger.lookup([account(1)]),
                anext(stranger.subscribers()),
            ):
                with pytest.raises(client.RequestRefusedError, match="401") as refusal:
                    await attempt
                assert secret not in str(refusal.value)


async def test_refusals_name_each_fault(app: App, notifier: Notifier) -> None:
    with pytest.raises(client.RequestRefusedError, match=r"[^.]; #/accounts/1 .*[^.]; #/notification/title "):
        await notifier.notify(NEWS, "", "Body", [account(1), "nobody"])
    with pytest.raises(client.RequestRefusedError, match="notification type"):
        await notifier.notify("weather", "Title", "Body", [account(1)])
    with pytest.raises(ValueError, match="500 accounts"):
        await notifier.notify(*TEXT, accounts(501))
    with pytest.raises(TypeError, match="not one text"):
        await notifier.notify(*TEXT, account(1))
    with pytest.raises(ValueError, match="JSON"):
        await notifier.notify(NEWS, "\ud800", "Body", [account(1)])
    with pytest.raises(ValueError, match="project id"):
        Notifier(app.server.url, "../admin", app.secret)
    with pytest.raises(ValueError, match="secret") as refusal:
        Notifier(app.server.url, app.project_id, f"{app.secret}\n")
    assert app.secret not in str(refusal.value)
    with pytest.raises(client.BadPairingError):
        Notifier("bridge.example", app.project_id, app.secret)
    with pytest.raises(RuntimeError, match="async with"):
        await Notifier(app.server.url, app.project_id, app.secret).lookup([account(1)])


@each_row("body", [b"", b"<html>", b"7", b"[7]", b'["a"', b'["a",', b'["a"],"b"]', b'["a","b","', b'{"a":1}'])
async def test_another_server_is_reported(gate: WebhookReceiver, gated: Notifier, body: bytes) -> None:
    gate.otherwise = saying(body)
    for use in (gated.notify(*TEXT, [account(1)]), gated.lookup([account(1)])):
        with pytest.raises(client.BadAnswerError, match="Is the URL"):
            await use
    with pytest.raises(client.BadAnswerError, match="Is the URL"):
        [each async for each in gated.subscribers()]


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


async def test_everybody_gets_it_once_and_the_progress_says_so(app: App, notifier: Notifier) -> None:
    await app.subscribe(*accounts(CROWD))
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
    assert delivered_to(app) == (CROWD - 1, CROWD - 1)


async def test_a_project_without_subscribers_is_walked_through_at_once(app: App, notifier: Notifier) -> None:
    seen = await walked(notifier.notify_all(*TEXT, id="mine"), app)
    assert seen == [NotifyProgress("mine"), NotifyProgress("mine", total=0, result=NotifyResult())]


async def test_accounts_can_be_named_and_a_dry_run_changes_nothing(app: App, notifier: Notifier) -> None:
    await app.subscribe(*accounts(700))
    result = await notifier.notify(*TEXT, [account(1), account(999)], dry_run=True)
    dry = (await walked(notifier.notify_all(*TEXT, dry_run=True), app))[-1]
    assert result == NotifyResult((account(1),), (), (account(999),))
    assert (dry.id, dry.sent) == (None, 700)
    assert delivered_to(app) == (0, 0)
    named = (await walked(notifier.notify_all(*TEXT, to=[*accounts(800), account(1)]), app))[-1]
    assert (named.total, named.accounts, named.sent, named.not_found) == (800, 800, 700, 100)
    assert delivered_to(app) == (700, 700)
    with pytest.raises(client.RequestRefusedError, match="/accounts/100 must be an account id"):
        await walked(notifier.notify_all(*TEXT, to=[*accounts(600), "nonsense"]), app)
    assert delivered_to(app) == (1_200, 700)  # earlier calls stay


@pytest.mark.own_server  # in test mode subscribers may be listed more often
@pytest.mark.sqlite("hours pass in the loop of the server, whose exchanges with PostgreSQL have seconds")
async def test_the_servers_limits_are_waited_out(app: App, notifier: Notifier, pass_time: PassTime) -> None:
    await app.subscribe(*accounts(2_000))
    assert [(await app.listing()).status for _ in range(3)] == [200, 200, 429]
    assert [(await app.notify([account(9_999)])).status for _ in range(21)] == [200] * 20 + [429]
    seen = await walked(notifier.notify_all(*TEXT), app, pass_time)
    waits = [each for each in seen if each.waits_seconds]
    assert waits
    assert all(each.waits_seconds < 10 and "notify calls" in each.because for each in waits)
    assert seen[-1].sent == 2_000
    assert delivered_to(app) == (2_000, 2_000)


async def test_failures_send_to_nobody_twice(app: App, gate: WebhookReceiver, gated: Notifier) -> None:
    await app.subscribe(*accounts(2_000))
    walk = gated.notify_all(*TEXT)
    await anext(walk)
    gate.script.extend([status(503, Retry_After="0"), reset, losing_the_answer(gate.otherwise), status(502)])
    seen = await walked(walk, app)
    assert len([each for each in seen if each.waits_seconds]) == 4
    assert seen[-1].sent == 2_000
    assert delivered_to(app) == (2_000, 2_000)


async def test_a_server_that_stays_away_ends_the_walk(
    app: App, gate: WebhookReceiver, gated: Notifier, pass_time: PassTime
) -> None:
    await app.subscribe(*accounts(600))
    gate.otherwise = status(503, Retry_After="100")
    with pytest.raises(client.BridgeUnreachableError, match="503"):
        await walked(gated.notify_all(*TEXT), app, pass_time)
    assert len(gate.requests) == 3


async def test_a_listing_that_breaks_off_goes_on(app: App, gate: WebhookReceiver, gated: Notifier) -> None:
    await app.subscribe(*accounts(600))
    gate.script.extend([long_body(1_000_000), reset])
    with pytest.raises(Exception, match="no list of accounts"):
        await anext(gated.subscribers())
    assert [each async for each in gated.subscribers()] == accounts(600)


async def test_a_walk_goes_on_with_its_id(app: App, notifier: Notifier, pass_time: PassTime) -> None:
    await app.subscribe(*accounts(2_000))
    async with aclosing(notifier.notify_all(*TEXT)) as walk:
        async for progress in walk:
            if progress.accounts == 1_000:
                break
    again = await walked(notifier.notify_all(*TEXT, id=progress.id), app)
    behind = await walked(notifier.notify_all(*TEXT, id=progress.id, after=progress.after), app, pass_time)
    assert (again[-1].sent, behind[-1].sent) == (2_000, 1_000)
    assert behind[-1].total is None
    assert delivered_to(app) == (2_000, 2_000)


async def test_a_later_walk_reaches_accounts_that_were_over_their_limit(app: App, notifier: Notifier) -> None:
    await app.subscribe(*accounts(600))
    await app.operator.projects.limit_accounts(app.project_id, per_hour=1, burst=1)
    await notifier.notify(NEWS, "Earlier", "Body", [account(1), account(2)])
    first = (await walked(notifier.notify_all(*TEXT, id="walk"), app))[-1]
    app.server.clock.advance(3_600)
    second = (await walked(notifier.notify_all(*TEXT, id="walk"), app))[-1]
    assert (first.sent, first.rate_limited) == (598, 2)
    assert (second.sent, second.rate_limited) == (600, 0)
    assert delivered_to(app) == (602, 600)


async def test_a_killed_server_that_comes_back_is_waited_for(tmp_path: Path) -> None:
    settings = settings_over(tmp_path / "data")
    with server_process(tmp_path / "data") as process:
        secret = await project.project_with_subscribers(settings, 3_000)
        waited = False
        async with (
            Notifier(process.url, "app", secret, pace=BRISK) as notifier,
            aclosing(notifier.notify_all(*TEXT)) as walk,
        ):
            async for progress in walk:
                if progress.accounts == 1_000 and not waited:
                    if not progress.waits_seconds:
                        process.kill()
                    else:
                        waited = True
                        process.start()

        assert (progress.accounts, progress.sent) == (3_000, 3_000)
        assert waited
        with database_of(settings) as database:
            assert database.execute(_DELIVERED) == [(3_000, 3_000)]
