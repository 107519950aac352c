"""The contract of every driver: reads see every commit that was answered, and wait for nobody."""

import asyncio

from bridge_server.kernel.events import Events
from bridge_server.kernel.signals import Signals
from bridge_server.storage.database import Database, Value
from tests.storage.notes import put, text_of, turn
from tests.support.rows import each_row

SLOW = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 3000000)
SELECT count(*) FROM numbers
"""


async def test_a_read_returns_all_rows_in_their_order(database: Database) -> None:
    await asyncio.gather(*(database.transaction(put(name, name.upper())) for name in "cab"))

    rows = await database.read("SELECT name, text FROM notes WHERE name <> ? ORDER BY name", ("b",))

    assert rows == [("a", "A"), ("c", "C")]


async def test_a_read_that_is_not_sql_fails_alone(database: Database) -> None:
    before, wrong, after = await asyncio.gather(
        database.read("SELECT 1"),
        database.read("SELECT nonsense FROM nowhere"),
        database.read("SELECT 2"),
        return_exceptions=True,
    )

    assert isinstance(wrong, Exception)
    assert (before, after) == ([(1,)], [(2,)])


async def test_everyone_of_5000_who_wake_after_a_commit_reads_the_new_value(
    database: Database, events: Events
) -> None:
    await database.transaction(put("a", "old"))
    signals = Signals()
    signals.subscribe_to(events)

    async def new_text() -> Value:
        text = await text_of(database, "a")
        return text if text != "old" else None

    waiters = [asyncio.create_task(signals.wait_for(("note", "a"), new_text, 60)) for _ in range(5_000)]
    while signals.waiting < 5_000:
        await turn(1)
    await database.transaction(put("a", "new"))

    assert await asyncio.gather(*waiters) == ["new"] * 5_000


async def test_reads_that_began_before_a_commit_do_not_keep_later_ones_in_the_past(
    database: Database,
) -> None:
    for number in range(40):
        earlier = [asyncio.create_task(text_of(database, "a")) for _ in range(100)]
        await turn(number % 5)
        await database.transaction(put("a", str(number)))

        later = await asyncio.gather(*(text_of(database, "a") for _ in range(100)))

        assert later == [str(number)] * 100
        await asyncio.gather(*earlier)


async def test_a_slow_read_holds_up_neither_reads_nor_writes(database: Database) -> None:
    slow = asyncio.ensure_future(database.read(SLOW))
    await turn(3)

    for number in range(5):
        await database.transaction(put("a", str(number)))
        assert await text_of(database, "a") == str(number)

    assert not slow.done()
    assert await slow == [(3_000_000,)]


async def test_a_reader_does_not_see_half_of_a_transaction(database: Database) -> None:
    async def write() -> None:
        for number in range(100):
            await database.transaction(put(f"{number}", "x"))

    writing = asyncio.create_task(write())
    while not writing.done():
        ((notes, events),) = await database.read(
            "SELECT (SELECT count(*) FROM notes), (SELECT count(*) FROM events)"
        )

        assert notes == events
    await writing


@each_row("readers", [1, 64, 65, 1_000])
async def test_any_number_may_read_at_once(database: Database, readers: int) -> None:
    await database.transaction(put("a", "text"))

    assert await asyncio.gather(*(text_of(database, "a") for _ in range(readers))) == ["text"] * readers
