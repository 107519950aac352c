"""Subscribers: a lookup answers in the caller's spelling, a listing has all in order."""

import aiohttp
import orjson
import pytest

from bridge_server.kernel.errors import UnavailableError
from bridge_server.notify.store import NotifyStore
from bridge_server.projects.models import Project
from tests.support.project import NEWS, OFFERS, App, accounts
from tests.support.rows import each_row

A, B, C = accounts(3)


async def test_types_come_in_the_order_of_the_project(app: App) -> None:
    await app.operator.projects.add_type(app.project_id, "First by name", "aaa")
    await app.subscribe(A, types=["aaa", OFFERS, NEWS])
    await app.subscribe(B, types=["aaa", NEWS])

    assert (await app.lookup([B, A])).json == {
        B: {"notification_types": [NEWS, "aaa"]},
        A: {"notification_types": [NEWS, OFFERS, "aaa"]},
    }


async def test_a_subscriber_without_types_is_one(app: App) -> None:
    await app.subscribe(A, types=[])

    assert (await app.lookup([A])).json == {A: {"notification_types": []}}
    assert (await app.listing()).json == [A]


async def test_a_removed_type_is_taken_from_subscribers_and_a_new_type_given_only_to_subscribers_of_all(
    app: App,
) -> None:
    await app.subscribe(A)
    await app.subscribe(B, types=[NEWS, OFFERS])

    await app.operator.projects.remove_type(app.project_id, NEWS)
    await app.operator.projects.add_type(app.project_id, "More", "more")

    assert (await app.lookup([A, B])).json == {
        A: {"notification_types": [OFFERS, "more"]},
        B: {"notification_types": [OFFERS]},
    }


async def test_subscription_to_all_types_includes_later_types(app: App) -> None:
    await app.subscribe(A, B)
    await app.subscribe(B, types=[NEWS, OFFERS])
    await app.subscribe(C, types=[NEWS])
    await app.subscribe(C)
    await app.operator.projects.add_type(app.project_id, "More", "more")

    answer = await app.notify([A, B, C], type="more")

    assert answer.json["sent"] == [A, C]
    assert answer.json["failed"] == [{"account": B, "reason": "type_not_subscribed"}]


async def test_subscription_before_any_type_includes_the_first(app: App) -> None:
    for type_id in (NEWS, OFFERS):
        await app.operator.projects.remove_type(app.project_id, type_id)
    await app.subscribe(A)
    await app.operator.projects.add_type(app.project_id, "More", "more")

    assert (await app.notify([A], type="more")).json["sent"] == [A]


async def test_a_type_that_is_added_again_has_no_subscribers_yet(app: App) -> None:
    await app.subscribe(A, types=[NEWS, OFFERS])
    await app.operator.projects.remove_type(app.project_id, NEWS)
    await app.operator.projects.add_type(app.project_id, "News again", NEWS)

    assert (await app.lookup([A])).json == {A: {"notification_types": [OFFERS]}}
    assert (await app.notify([A])).json["failed"] == [{"account": A, "reason": "type_not_subscribed"}]
    await app.subscribe(A)
    assert (await app.notify([A])).json["sent"] == [A]


async def test_lookup_leaves_out_accounts_without_subscription(app: App) -> None:
    await app.subscribe(A, B)
    await app.unsubscribe(B)

    assert list((await app.lookup([C, B, A])).json) == [A]
    assert (await app.lookup([B, C])).body == b"{}"


async def test_the_listing_is_everybody_who_is_subscribed_now_in_order(app: App) -> None:
    everybody = accounts(2_345)
    for start in range(0, 2_345, 500):
        await app.subscribe(*reversed(everybody[start : start + 500]))
    await app.unsubscribe(*everybody[::7])

    listed = (await app.listing()).json

    assert listed == sorted(set(everybody) - set(everybody[::7]))


@each_row("count", [0, 1, 999, 1_000, 1_001, 2_000])
async def test_no_page_of_the_listing_is_lost_or_repeated(app: App, count: int) -> None:
    everybody = accounts(count)
    for start in range(0, count, 500):
        await app.subscribe(*everybody[start : start + 500])

    answer = await app.listing()

    assert answer.json == everybody
    assert answer.body == orjson.dumps(everybody)


async def test_the_listing_spells_accounts_with_their_checksum_and_their_first_chain(app: App) -> None:
    lower = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"
    await app.subscribe(f"eip155:001:{lower}", "cosmos:cosmoshub-3:Xy", "abc:a:b")
    await app.subscribe(f"eip155:137:{lower}")

    assert (await app.listing()).json == [
        "abc:a:b",
        "cosmos:cosmoshub-3:Xy",
        "eip155:1:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    ]


async def test_subscribing_and_leaving_show_at_the_very_next_request(app: App) -> None:
    for spelled in accounts(20):
        await app.subscribe(spelled)
        assert list((await app.lookup([spelled])).json) == [spelled]
        await app.unsubscribe(spelled)
        assert (await app.lookup([spelled])).json == {}


async def test_a_listing_that_cannot_be_read_to_its_end_is_not_taken_for_a_whole_one(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in range(1, 1_501, 500):
        await app.subscribe(*accounts(500, first=start))
    read_page = NotifyStore.listing_page

    async def break_down(
        store: NotifyStore, project: Project, after: str, limit: int
    ) -> tuple[bytes, str | None]:
        if after:
            raise UnavailableError("The database is locked.")
        return await read_page(store, project, after, limit)

    with monkeypatch.context() as patch:
        patch.setattr(NotifyStore, "listing_page", break_down)
        with pytest.raises(aiohttp.ClientError):
            await app.listing()

    assert (await app.listing()).json == accounts(1_500)


async def test_a_listing_of_a_project_that_is_deleted_meanwhile_is_not_taken_for_a_whole_one(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in range(1, 1_501, 500):
        await app.subscribe(*accounts(500, first=start))
    read_page = NotifyStore.listing_page

    async def delete_in_between(
        store: NotifyStore, project: Project, after: str, limit: int
    ) -> tuple[bytes, str | None]:
        if after:
            await app.operator.projects.delete(app.project_id)
        return await read_page(store, project, after, limit)

    with monkeypatch.context() as patch:
        patch.setattr(NotifyStore, "listing_page", delete_in_between)
        with pytest.raises(aiohttp.ClientError):
            await app.listing()
