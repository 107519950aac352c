"""Server-sent events: what comes is told at once, in order, and nothing is lost between two streams."""

import asyncio
from contextlib import AsyncExitStack

from tests.inbox.sending import send_numbered
from tests.support.asking import ask
from tests.support.event_reader import open_stream
from tests.support.eventually import eventually
from tests.support.figures import figure
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.project import App, create_app
from tests.support.rows import each_row
from tests.support.server import RunningServer


async def until_open(server: RunningServer, streams: int) -> None:
    """Return once exactly so many streams are open."""

    async def as_many() -> bool:
        return await figure(server, "inbox_streams") == streams

    await eventually(as_many)


async def test_streamed_event_equals_the_listed_notification(app: App, subscriber: InboxClient) -> None:
    async with open_stream(subscriber) as stream:
        await app.notify([subscriber.account], title="Títle 𝔘", body="a\nb", url="https://a.example/")
        event = await stream.next()

    (listed,) = (await subscriber.page())["notifications"]
    assert event.data == listed
    assert event.id == listed["id"]


async def test_a_stream_says_what_it_is(subscriber: InboxClient) -> None:
    async with open_stream(subscriber) as stream:
        headers = stream.headers

    assert headers["Content-Type"] == "text/event-stream"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Accel-Buffering"] == "no"
    assert headers["Server"] == "Bridge-Server"
    assert headers["X-Request-ID"]


async def test_a_head_request_opens_no_stream(app: App, subscriber: InboxClient) -> None:
    answer = await subscriber.ask("HEAD", "/stream")

    assert (answer.status, answer.headers["Content-Type"], answer.body) == (200, "text/event-stream", b"")
    await until_open(app.server, 0)


async def test_a_new_stream_tells_only_what_comes_from_now_on(app: App, subscriber: InboxClient) -> None:
    await send_numbered(app, subscriber, 1, 3)
    async with open_stream(subscriber) as stream:
        await send_numbered(app, subscriber, 4, 5)

        assert await stream.titles(2) == ["n4", "n5"]


@each_row("missed", [0, 1, 99, 100, 101, 250])
async def test_a_stream_goes_on_after_the_last_event(app: App, subscriber: InboxClient, missed: int) -> None:
    async with open_stream(subscriber) as stream:
        await send_numbered(app, subscriber, 1, 2)
        last_id = [(await stream.next()).id, (await stream.next()).id][0]
    wanted = ["n2", *await send_numbered(app, subscriber, 3, 2 + missed)]

    async with open_stream(subscriber, **{"Last-Event-ID": last_id}) as stream:
        wanted += await send_numbered(app, subscriber, 3 + missed, 4 + missed)

        assert await stream.titles(len(wanted)) == wanted


async def test_a_page_may_say_the_last_event_itself(app: App, subscriber: InboxClient) -> None:
    await send_numbered(app, subscriber, 1, 3)
    first_id = (await subscriber.ids())[-1]

    async with open_stream(subscriber, f"?last_event_id={first_id}") as stream:
        assert await stream.titles(2) == ["n2", "n3"]


async def test_the_beginning_is_a_place_to_go_on_from(app: App, subscriber: InboxClient) -> None:
    wanted = await send_numbered(app, subscriber, 1, 3)

    async with open_stream(subscriber, **{"Last-Event-ID": "0"}) as stream:
        assert await stream.titles(3) == wanted


@each_row("query", ["", "?last_event_id=", "?last_event_id=999999999999999999"])
async def test_a_last_event_that_says_nothing_is_now(app: App, subscriber: InboxClient, query: str) -> None:
    await send_numbered(app, subscriber, 1, 2)
    async with open_stream(subscriber, query, **{"Last-Event-ID": ""}) as stream:
        await send_numbered(app, subscriber, 3, 3)

        assert await stream.titles(1) == ["n3"]


@each_row("text", ["x", "-1", "01", "1.0", "9" * 19, "1 2"])
async def test_a_last_event_that_cannot_be_read_is_refused(subscriber: InboxClient, text: str) -> None:
    (await subscriber.ask("GET", "/stream", headers={"Last-Event-ID": text})).problem(400)
    (await subscriber.ask("GET", f"/stream?last_event_id={text.replace(' ', '%20')}")).problem(400)


async def test_every_stream_of_an_account_gets_every_notification(app: App, subscriber: InboxClient) -> None:
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(open_stream(subscriber)) for _ in range(10)]
        wanted = await send_numbered(app, subscriber, 1, 20)

        assert await asyncio.gather(*(stream.titles(20) for stream in streams)) == [wanted] * 10


async def test_streams_that_begin_during_a_burst_lose_and_repeat_nothing(
    app: App, subscriber: InboxClient
) -> None:
    async def read_all() -> list[str]:
        async with open_stream(subscriber, **{"Last-Event-ID": "0"}) as stream:
            return await stream.titles(120)

    read, wanted = [], []
    for first in range(1, 121, 10):
        read.append(asyncio.create_task(read_all()))
        wanted += await send_numbered(app, subscriber, first, first + 9)

    assert await asyncio.gather(*read) == [wanted] * 12


async def test_calls_that_overlap_reach_every_account_in_order(app: App) -> None:
    inboxes = [await sign_in(app.server, number) for number in range(1, 21)]
    for inbox in inboxes:
        await inbox.subscribe(app.project_id)
    everybody = [inbox.account for inbox in inboxes]

    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(open_stream(inbox)) for inbox in inboxes]
        await asyncio.gather(*(app.notify(everybody, title=f"n{number}") for number in range(20)))
        told = [[await stream.next() for _ in range(20)] for stream in streams]

    ids = [[int(event.id) for event in events] for events in told]
    assert ids[0] == sorted(set(ids[0]))
    assert ids == [ids[0]] * 20
    assert {event.data["title"] for event in told[0]} == {f"n{number}" for number in range(20)}


async def test_notifications_of_a_deleted_project_are_not_streamed(
    server: RunningServer, app: App, subscriber: InboxClient
) -> None:
    other = await create_app(server, app.operator, "Other", "other")
    await subscriber.subscribe("other")
    await send_numbered(app, subscriber, 1, 3)
    await send_numbered(other, subscriber, 4, 4)
    await app.operator.projects.delete(app.project_id)

    async with open_stream(subscriber, **{"Last-Event-ID": "0"}) as stream:
        assert await stream.titles(1) == ["n4"]


async def test_notification_read_meanwhile_is_streamed_as_read(app: App, subscriber: InboxClient) -> None:
    await send_numbered(app, subscriber, 1, 2)
    await subscriber.mark((await subscriber.ids())[1:])
    await app.mark_all()

    async with open_stream(subscriber, **{"Last-Event-ID": "0"}) as stream:
        events = [await stream.next(), await stream.next()]

    assert [event.data["read_by"] for event in events] == ["user", "bulk"]


async def test_stream_without_sign_in_is_401(server: RunningServer) -> None:
    (await ask(server, "GET", "/inbox/stream")).problem(401)
