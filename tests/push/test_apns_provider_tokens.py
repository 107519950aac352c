from itertools import pairwise

import orjson
import structlog
from Crypto.PublicKey import ECC

from bridge_server.kernel import base64url
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.push.providers.apns import ApnsProvider, ProviderToken, ProviderTokens
from tests.push.apns import TOKEN, Apns, opened_apns
from tests.support.apns_service import refusal
from tests.support.clock import ManualClock
from tests.support.rows import each_row

MINUTE = 60
WINDOW_MS = 750_000 * 40 * 60_000
KEY = ECC.generate(curve="P-256")


def tokens_at(clock: ManualClock) -> ProviderTokens:
    return ProviderTokens(KEY, "K", "T", clock)


def issued_at(token: ProviderToken) -> int:
    issued: int = orjson.loads(base64url.decode(token.text.split(".")[1]))["iat"]
    return issued


async def test_one_provider_token_serves_for_forty_minutes() -> None:
    async with opened_apns() as apns:
        for minutes in (0, 19, 20, 0.9):
            apns.clock.advance(minutes * MINUTE)
            await apns.push()

        assert len(apns.service.provider_tokens) == 1


async def test_provider_token_is_renewed_before_it_expires_and_not_too_often() -> None:
    async with opened_apns() as apns:
        for _ in range(24):  # four hours, with a push every ten minutes
            assert (await apns.push()).verdict is Verdict.DELIVERED
            apns.clock.advance(10 * MINUTE)

        assert len(apns.service.provider_tokens) == 6


async def test_a_hundred_pushes_after_it_got_old_make_one_new_one() -> None:
    async with opened_apns() as apns:
        await apns.push()
        apns.clock.advance(40 * MINUTE)

        outcomes = await apns.push_many(100)

        assert {outcome.verdict for outcome in outcomes} == {Verdict.DELIVERED}
        assert len(apns.service.provider_tokens) == 2


async def test_provider_token_that_expires_in_flight_is_renewed_once_for_all() -> None:
    async with opened_apns() as apns:
        await apns.push()
        apns.clock.advance(30 * MINUTE)
        apns.service.script.extend([refusal("ExpiredProviderToken")] * 50)

        outcomes = await apns.push_many(50)

        assert {outcome.verdict for outcome in outcomes} == {Verdict.DELIVERED}
        assert len(apns.service.provider_tokens) == 2


async def test_provider_token_expired_twice_blocks_and_blames_the_clock() -> None:
    async with opened_apns() as apns:
        apns.service.script.extend([refusal("ExpiredProviderToken")] * 2)

        outcome = await apns.push()

        assert outcome == Outcome(
            Verdict.BLOCKED,
            "APNs answered 403 ExpiredProviderToken for a fresh token: check this machine's clock",
            403,
        )
        assert not apns.service.script


async def test_a_forced_renewal_is_not_repeated_within_twenty_minutes() -> None:
    async with opened_apns() as apns:
        apns.service.script.extend([refusal("ExpiredProviderToken")] * 10)
        left = []
        for minutes in (0, 0, 19, 1):
            apns.clock.advance(minutes * MINUTE)
            assert (await apns.push()).verdict is Verdict.BLOCKED
            left.append(len(apns.service.script))

        assert left == [8, 7, 6, 4]


async def test_a_renewal_that_comes_too_early_for_apple_is_a_failure_that_waits() -> None:
    async with opened_apns() as apns:
        await apns.push()
        apns.clock.advance(MINUTE)
        apns.service.script.append(refusal("ExpiredProviderToken"))

        outcome = await apns.push()

        assert outcome.reason == "APNs answered 429 TooManyProviderTokenUpdates"
        assert outcome.retry_after_seconds == 1_200


async def test_a_key_that_apple_does_not_know_blocks() -> None:
    key = ECC.generate(curve="P-256").export_key(format="PEM")
    async with opened_apns(key=str(key)) as apns:
        outcome = await apns.push()

        assert outcome.verdict is Verdict.BLOCKED
        assert outcome.reason.endswith("InvalidProviderToken: check the key, the key id and the team id")
        assert apns.service.received == []


async def test_a_wrong_key_id_or_team_blocks() -> None:
    async with opened_apns(key_id="XXXXXXXXXX") as apns:
        assert (await apns.push()).verdict is Verdict.BLOCKED
    async with opened_apns(team_id="XXXXXXXXXX") as apns:
        assert (await apns.push()).verdict is Verdict.BLOCKED


@each_row("minutes", [0, 1, 19, 39.99])
def test_a_restart_and_another_process_make_one_token_within_forty_minutes(minutes: float) -> None:
    clock = ManualClock(WINDOW_MS)
    before = tokens_at(clock).current()
    clock.advance(minutes * MINUTE)

    assert tokens_at(clock).current().text == before.text
    assert issued_at(before) == WINDOW_MS // 1_000


def test_next_window_has_one_provider_token_for_all() -> None:
    clock = ManualClock(WINDOW_MS)
    running = tokens_at(clock)
    before = running.current()
    clock.advance(40 * MINUTE)

    assert running.current().text == tokens_at(clock).current().text != before.text


async def test_a_restart_beside_a_push_is_no_update_to_apple() -> None:
    async with opened_apns() as apns:
        await apns.push()
        apns.clock.advance(5 * MINUTE)

        async with ApnsProvider(apns.provider._settings, apns.clock) as another:
            assert (await Apns(apns.service, another, apns.clock).push()).verdict is Verdict.DELIVERED

        assert len(apns.service.provider_tokens) == 1


@each_row("first", [0, 10, 20, 21, 30, 39.99])
@each_row("refused", [None, 0, 1, 10, 19, 25, 39.99, 45, 59])
def test_whenever_the_first_push_and_a_replacement_come_no_update_is_too_early(
    first: float, refused: float | None
) -> None:
    clock = ManualClock(WINDOW_MS)
    clock.advance(first * MINUTE)
    tokens = tokens_at(clock)
    started_ms = clock.now_ms()
    made: dict[str, int] = {}
    forced: str | None = None

    for _ in range(4 * 60 * 2):
        now_ms = clock.now_ms()
        token = tokens.current()
        if refused is not None and forced is None and now_ms >= started_ms + refused * 60_000:
            replacement = tokens.replaced(token)
            assert replacement is not None
            made.pop(token.text, None)  # how soon after this one Apple calls it expired is up to Apple
            token, forced = replacement, replacement.text
        made.setdefault(token.text, now_ms)
        assert 0 <= now_ms // 1_000 - issued_at(token) < 3_600
        clock.advance(MINUTE / 2)

    moments = list(made.values())
    assert len(moments) >= 5
    assert all(later - earlier >= 20 * 60_000 for earlier, later in pairwise(moments))


def test_a_replacement_says_that_it_was_issued_now() -> None:
    clock = ManualClock(WINDOW_MS)
    tokens = tokens_at(clock)
    refused = tokens.current()
    clock.advance(7 * MINUTE)

    replacement = tokens.replaced(refused)

    assert replacement is tokens.current() is tokens.replaced(refused)
    assert replacement is not None
    assert issued_at(replacement) == issued_at(refused) + 7 * MINUTE
    assert tokens.replaced(replacement) is None


def test_outdated_provider_token_is_replaced_by_the_current_one() -> None:
    clock = ManualClock(WINDOW_MS)
    tokens = tokens_at(clock)
    refused = tokens.current()
    clock.advance(40 * MINUTE)

    replacement = tokens.replaced(refused)

    assert replacement is not None
    assert replacement.text == tokens_at(clock).current().text


def test_a_clock_that_was_set_back_makes_a_new_one() -> None:
    clock = ManualClock(WINDOW_MS)
    tokens = tokens_at(clock)
    first = tokens.current()
    clock.advance(-MINUTE)

    assert tokens.current().text != first.text
    assert issued_at(tokens.current()) == WINDOW_MS // 1_000 - 40 * MINUTE


async def test_no_credential_shows_in_logs_reprs_or_outcomes() -> None:
    with structlog.testing.capture_logs() as logs:
        async with opened_apns() as apns:
            apns.service.script.append(refusal("InvalidProviderToken"))
            outcomes = [await apns.push(), await apns.push()]
            token = apns.provider._tokens.current()
            shown = f"{logs} {outcomes} {token!r} {apns.provider._settings!r} {apns.provider!r}"

    for secret in ("PRIVATE KEY", apns.service.key[40:80], token.text, TOKEN):
        assert secret not in shown
