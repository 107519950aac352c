"""`Notifier` against a server: what it sends, returns, retries and refuses."""

import pytest

from bridge_server.kit.client import (
    BadAnswerError,
    BadPairingError,
    BridgeUnreachableError,
    FailedAccount,
    Notifier,
    NotifyResult,
    RequestRefusedError,
    SubscribedAccount,
)
from tests.client.gate import losing_the_answer, saying
from tests.client.pairs import BRISK
from tests.support.project import (
    DELIVERED,
    NEWS,
    OFFERS,
    App,
    account,
    accounts,
    look,
    subscribe_crowd,
)
from tests.support.rows import each_row
from tests.support.webhook_receiver import Answer, WebhookReceiver, reset, status

TEXT = (NEWS, "ETH is up ☂ 🚀", "مرحبا, 1 ETH costs 4,000 USD.")
NOT_NOW = {"503": status(503), "503 with Retry-After": status(503, Retry_After="0"), "429": status(429)}
BROKEN = {"500": status(500), "502": status(502), "broken off": reset}


def delivered(app: App) -> list[tuple[str, str]]:
    """The account keys and titles of what is in inboxes of the project."""
    query = DELIVERED.replace("ORDER BY", "JOIN projects ON projects.id = sendings.project "
                              "WHERE projects.project_id = ? ORDER BY")  # fmt: skip
    return look(app.server, query, app.project_id)


async def test_result_has_each_account_once(app: App, notifier: Notifier) -> None:
    await app.subscribe(account(1))
    await app.subscribe(account(2), types=[OFFERS])

    result = await notifier.notify(*TEXT, [account(1), account(2), account(3)], url="https://a.example/é")

    assert result == NotifyResult(
        (account(1),), (FailedAccount(account(2), "type_not_subscribed"),), (account(3),)
    )
    assert delivered(app) == [(account(1).replace(":1:", ":"), TEXT[1])]


async def test_account_over_its_limit_says_how_long_to_wait(app: App, notifier: Notifier) -> None:
    await app.subscribe(account(1))
    await app.operator.projects.limit_accounts(app.project_id, per_hour=2, burst=1)
    await notifier.notify(*TEXT, [account(1)])

    result = await notifier.notify(*TEXT, [account(1)])

    assert result.failed == (FailedAccount(account(1), "rate_limited", 1_800),)


async def test_dry_run_changes_nothing(app: App, notifier: Notifier) -> None:
    await app.subscribe(account(1))

    result = await notifier.notify(*TEXT, [account(1), account(2)], dry_run=True)

    assert result == NotifyResult((account(1),), (), (account(2),))
    assert delivered(app) == []


async def test_subscribers_and_lookup(app: App, notifier: Notifier) -> None:
    crowd = accounts(230)
    await app.subscribe(*crowd[:220])
    await app.subscribe(account(1), types=[OFFERS])

    listed = [each async for each in notifier.subscribers()]
    rest = [each async for each in notifier.subscribers(after=account(218))]
    found = await notifier.lookup(crowd)

    assert listed == crowd[:220]
    assert rest == crowd[218:220]
    assert list(found) == crowd[:220]
    assert found[account(1)] == SubscribedAccount(account(1), (OFFERS,))
    assert found[account(2)].notification_types == (NEWS, OFFERS)


async def test_no_subscribers_is_an_empty_list(notifier: Notifier) -> None:
    assert [each async for each in notifier.subscribers()] == []
    assert await notifier.lookup([]) == {}


@pytest.mark.own_server
async def test_large_listing_comes_in_pieces(app: App, notifier: Notifier) -> None:
    await app.subscribe(account(10_001))
    subscribe_crowd(app.server.settings, 10_000)

    listed = [each async for each in notifier.subscribers()]

    assert listed == accounts(10_001)


@pytest.mark.parametrize("failure", NOT_NOW.values(), ids=NOT_NOW.keys())
async def test_a_call_that_was_surely_not_taken_is_sent_again(
    app: App, gate: WebhookReceiver, gated: Notifier, failure: Answer
) -> None:
    await app.subscribe(account(1))
    gate.script.extend([failure] * 3)

    await gated.notify(*TEXT, [account(1)])

    assert len(delivered(app)) == 1


@pytest.mark.parametrize("failure", BROKEN.values(), ids=BROKEN.keys())
async def test_a_call_without_id_that_may_have_been_taken_is_not_sent_again(
    app: App, gate: WebhookReceiver, gated: Notifier, failure: Answer
) -> None:
    await app.subscribe(account(1))
    gate.script.append(failure)
    with pytest.raises(BridgeUnreachableError, match="may have taken"):
        await gated.notify(*TEXT, [account(1)])

    gate.script.append(losing_the_answer(gate.otherwise))
    with pytest.raises(BridgeUnreachableError, match="may have taken"):
        await gated.notify(*TEXT, [account(1)])

    assert len(delivered(app)) == 1


async def test_a_call_with_id_is_sent_again_and_arrives_once(
    app: App, gate: WebhookReceiver, gated: Notifier
) -> None:
    await app.subscribe(account(1))
    gate.script.extend([*BROKEN.values(), losing_the_answer(gate.otherwise)])

    result = await gated.notify(*TEXT, [account(1)], id="first")

    assert result.sent == (account(1),)
    assert len(delivered(app)) == 1


async def test_reading_is_retried(app: App, gate: WebhookReceiver, gated: Notifier) -> None:
    await app.subscribe(account(1))

    gate.script.extend([*NOT_NOW.values(), *BROKEN.values()])
    assert list(await gated.lookup([account(1)])) == [account(1)]
    gate.script.extend([*NOT_NOW.values(), *BROKEN.values()])
    assert [each async for each in gated.subscribers()] == [account(1)]
    gate.script.extend(BROKEN.values())
    assert (await gated.notify(*TEXT, [account(1)], dry_run=True)).sent == (account(1),)


async def test_a_long_limit_is_the_callers(gate: WebhookReceiver, gated: Notifier) -> None:
    gate.script.append(status(429, Retry_After="3600"))

    with pytest.raises(RequestRefusedError, match="429") as refusal:
        await gated.notify(*TEXT, [account(1)])

    assert refusal.value.retry_after_seconds == 3_600


async def test_a_wrong_secret_and_an_unknown_project_are_refused(app: App) -> None:
    for project, secret in ((app.project_id, "bsk_wrong"), ("nobody", app.secret)):
        async with Notifier(app.server.url, project, secret, pace=BRISK) as stranger:
            for attempt in (
                stranger.notify(*TEXT, [account(1)]),
                stranger.lookup([account(1)]),
                anext(stranger.subscribers()),
            ):
                with pytest.raises(RequestRefusedError, match="401") as refusal:
                    await attempt
                assert secret not in str(refusal.value)


async def test_a_refusal_names_each_fault(notifier: Notifier) -> None:
    with pytest.raises(RequestRefusedError, match=r"[^.]; #/accounts/1 .*[^.]; #/notification/title "):
        await notifier.notify(NEWS, "", "Body", [account(1), "nobody"])
    with pytest.raises(RequestRefusedError, match="notification type"):
        await notifier.notify("weather", "Title", "Body", [account(1)])


async def test_a_notification_that_cannot_be_sent_is_refused_by_the_client(
    app: App, notifier: Notifier
) -> None:
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
    with pytest.raises(BadPairingError):
        Notifier("bridge.example", app.project_id, app.secret)
    with pytest.raises(RuntimeError, match="async with"):
        await Notifier(app.server.url, app.project_id, app.secret).lookup([account(1)])


@each_row("body", [b"", b"<html>", b"7", b"[7]", b'["a"', b'["a",', b'["a"],"b"]', b'["a","b","', b'{"a":1}'])
async def test_a_server_that_is_another_is_reported(
    gate: WebhookReceiver, gated: Notifier, body: bytes
) -> None:
    gate.otherwise = saying(body)

    with pytest.raises(BadAnswerError, match="Is the URL"):
        await gated.notify(*TEXT, [account(1)])
    with pytest.raises(BadAnswerError, match="Is the URL"):
        await gated.lookup([account(1)])
    with pytest.raises(BadAnswerError, match="Is the URL"):
        [each async for each in gated.subscribers()]
