"""Server-sent events: order, the place to go on from, and how streams end."""

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import aiohttp

from tests.inbox.conftest import send_numbered, titles_from
from tests.support.asking import METRICS_TOKEN, figure, raw_connection
from tests.support.inbox_client import InboxClient, open_stream, sign_in
from tests.support.project import App, create_app, opened_app
from tests.support.rows import each_row
from tests.support.server import RunningServer, reached, running_server, server_process
from tests.support.waiting import eventually


async def until_open(server: RunningServer, streams: int) -> None:
    """Return once exactly so many streams are open."""

    async def as_many() -> bool:
        return await figure(server, "inbox_streams") == streams

    await eventually(as_many)


async def test_an_event_equals_the_listed_notification(app: App, subscriber: InboxClient) -> None:
    async with open_stream(subscriber) as stream:
        headers = stream.headers
        await app.notify([subscriber.account], title="Títle 𝔘", body="a\nb", url="https://a.example/")
        event = await stream.next()

    (listed,) = (await subscriber.page())["notifications"]
    assert (event.data, event.id) == (listed, listed["id"])
    assert headers["Content-Type"] == "text/event-stream"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Accel-Buffering"] == "no"
    assert headers["Server"] == "Bridge-Server"
    assert headers["X-Request-ID"]


async def test_a_head_request_opens_no_stream(app: App, subscriber: InboxClient) -> None:
    answer = await subscriber.ask("HEAD", "/stream")
    assert (answer.status, answer.headers["Content-Type"], answer.body) == (200, "text/event-stream", b"")
    await until_open(app.server, 0)


@each_row(
    ("query", "headers"),
    [
        ("", {}),
        ("", {"Last-Event-ID": ""}),
        ("?last_event_id=", {"Last-Event-ID": ""}),
        ("?last_event_id=999999999999999999", {"Last-Event-ID": ""}),
    ],
)
async def test_a_stream_without_a_last_event_tells_only_what_comes_from_now_on(
    app: App, subscriber: InboxClient, query: str, headers: dict[str, str]
) -> None:
    await send_numbered(app, subscriber, 1, 2)
    async with open_stream(subscriber, query, **headers) as stream:
        await send_numbered(app, subscriber, 3, 4)
        assert await stream.titles(2) == ["n3", "n4"]


@each_row("missed", [0, 1, 99, 100, 201])
async def test_a_stream_goes_on_after_the_last_event(app: App, subscriber: InboxClient, missed: int) -> None:
    async with open_stream(subscriber) as stream:
        await send_numbered(app, subscriber, 1, 2)
        last_id = (await stream.next()).id
    wanted = ["n2", *await send_numbered(app, subscriber, 3, 2 + missed)]

    async with open_stream(subscriber, **{"Last-Event-ID": last_id}) as stream:
        wanted += await send_numbered(app, subscriber, 3 + missed, 4 + missed)

        assert await stream.titles(len(wanted)) == wanted


async def test_a_page_may_say_the_last_event_itself(app: App, subscriber: InboxClient) -> None:
    await send_numbered(app, subscriber, 1, 3)
    first_id = (await subscriber.ids())[-1]
    async with open_stream(subscriber, f"?last_event_id={first_id}") as stream:
        assert await stream.titles(2) == ["n2", "n3"]


async def test_a_last_event_that_cannot_be_read_is_refused(subscriber: InboxClient) -> None:
    for text in ("x", "-1", "01", "1.0", "9" * 19, "1 2"):
        (await subscriber.ask("GET", "/stream", headers={"Last-Event-ID": text})).problem(400)
        (await subscriber.ask("GET", f"/stream?last_event_id={text.replace(' ', '%20')}")).problem(400)


async def test_every_stream_of_an_account_gets_every_notification(app: App, subscriber: InboxClient) -> None:
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(open_stream(subscriber)) for _ in range(10)]
        wanted = await send_numbered(app, subscriber, 1, 20)
        assert await asyncio.gather(*(stream.titles(20) for stream in streams)) == [wanted] * 10


async def test_streams_that_begin_in_a_burst_lose_nothing(app: App, subscriber: InboxClient) -> None:
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


async def test_history_of_read_and_deleted(server: RunningServer, app: App, subscriber: InboxClient) -> None:
    other = await create_app(server, app.operator, "Other", "other")
    await subscriber.subscribe("other")
    await send_numbered(app, subscriber, 1, 3)
    await send_numbered(other, subscriber, 4, 5)
    await subscriber.mark((await subscriber.ids())[1:2])
    await other.mark_all()
    await app.operator.projects.delete(app.project_id)

    async with open_stream(subscriber, **{"Last-Event-ID": "0"}) as stream:
        events = [await stream.next(), await stream.next()]

    assert [(event.data["title"], event.data["read_by"]) for event in events] == [
        ("n4", "user"),
        ("n5", "bulk"),
    ]


async def test_account_has_a_limited_number_of_streams(tmp_path: Path) -> None:
    async with running_server(tmp_path, max_streams=2, metrics_token=METRICS_TOKEN) as server:
        inbox, other = await sign_in(server), await sign_in(server, 2)
        async with open_stream(inbox), open_stream(other):
            async with open_stream(inbox):
                refused = await inbox.ask("GET", "/stream")
                again = await (await sign_in(server)).ask("GET", "/stream")
            await until_open(server, 2)
            async with open_stream(inbox):
                pass

    assert refused.problem(429)["type"].endswith("too-many-streams")
    assert int(refused.headers["Retry-After"]) > 0
    again.problem(429)


async def test_logging_out_ends_the_streams_of_that_token(app: App, subscriber: InboxClient) -> None:
    again = await sign_in(app.server)
    async with open_stream(subscriber) as one, open_stream(subscriber) as two, open_stream(again) as other:
        await subscriber.ask("POST", "/logout")

        assert await one.ended()
        assert await two.ended()
        await send_numbered(app, subscriber, 1, 1)
        assert await other.titles(1) == ["n1"]


async def test_stream_of_an_expired_token_gets_nothing(app: App) -> None:
    short = await sign_in(app.server, expires_at_ms=app.server.clock.now_ms() + 60_000)
    long = await sign_in(app.server)
    await short.subscribe(app.project_id)
    async with open_stream(short) as one, open_stream(long) as other:
        app.server.clock.advance(59)
        await send_numbered(app, short, 1, 1)
        assert await one.titles(1) == ["n1"]
        app.server.clock.advance(1)
        await send_numbered(app, short, 2, 2)

        assert await one.ended()
        assert await other.titles(2) == ["n1", "n2"]


async def test_a_connection_outlives_its_stream(app: App, subscriber: InboxClient) -> None:
    async with raw_connection(app.server) as connection:
        asking = f"Host: x\r\nAuthorization: Bearer {subscriber.token}\r\n\r\n".encode()
        await connection.send(b"GET /inbox/stream HTTP/1.1\r\n" + asking)
        await connection.reader.readuntil(b"retry: 2000\n\n\r\n")
        await send_numbered(app, subscriber, 1, 1)
        chunk = await connection.reader.readuntil(b"\n\n\r\n")
        await subscriber.ask("POST", "/logout")
        assert await connection.reader.readexactly(5) == b"0\r\n\r\n"
        await connection.send(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")

        assert (await connection.answer()).status == 200

    size, _, events = chunk.partition(b"\r\n")
    assert int(size, 16) == len(events) - 2


async def test_an_old_client_is_sent_events_without_chunks(app: App, subscriber: InboxClient) -> None:
    async with raw_connection(app.server) as connection:
        asking = f"Authorization: Bearer {subscriber.token}\r\n\r\n".encode()
        await connection.send(b"GET /inbox/stream HTTP/1.0\r\n" + asking)
        await connection.reader.readuntil(b"\r\n\r\nretry: 2000\n\n")
        await send_numbered(app, subscriber, 1, 1)
        event = await connection.reader.readuntil(b"\n\n")
        await subscriber.ask("POST", "/logout")

        assert event.startswith(b"id: ")
        assert await connection.rest() == b""


async def test_a_server_that_stops_ends_its_streams_in_good_order(tmp_path: Path) -> None:
    with server_process(tmp_path / "data") as process:
        async with reached(process) as server, AsyncExitStack() as stack:
            inboxes = [await sign_in(server, number) for number in range(1, 6)]
            streams = [
                await stack.enter_async_context(open_stream(inbox)) for inbox in inboxes for _ in range(10)
            ]

            exit_code = await asyncio.to_thread(process.stop)

            assert await asyncio.gather(*(stream.ended() for stream in streams)) == [True] * 50
    assert exit_code == 0


async def test_a_killed_server_loses_nothing_that_was_sent(tmp_path: Path) -> None:
    wanted, told, last_id = titles_from(0, 9), list[str](), "0"
    with server_process(tmp_path / "data") as process:
        async with reached(process) as server, opened_app(server) as app:
            inbox = await sign_in(server)
            await inbox.subscribe(app.project_id)
            async with open_stream(inbox) as stream:
                for title in wanted:
                    assert (await app.notify([inbox.account], title=title)).json["sent"] == [inbox.account]
                process.kill()
                with suppress(aiohttp.ClientError, OSError):
                    while True:
                        event = await stream.next()
                        told.append(event.data["title"])
                        last_id = event.id

    with server_process(tmp_path / "data") as process:
        async with reached(process) as server:
            again = InboxClient(server, inbox.wallet, inbox.token)
            async with open_stream(again, **{"Last-Event-ID": last_id}) as stream:
                told += await stream.titles(len(wanted) - len(told))

    assert told == wanted
