"""Transactions page by page for the operator, whatever share of the rows is wanted."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.kernel.events import Events
from bridge_server.storage.database import Database, Statement, Transaction
from bridge_server.wallet.models import Address, Caller, SendRequest, TransactionId, TransactionState
from bridge_server.wallet.transactions.store import ListedTransaction, TransactionListing, TransactionStore
from tests.support.rows import each_row
from tests.support.schema_databases import ENGINES, schema_database

SENDER = Address("0x" + "11" * 20)
COUNT = 23
MINED_EVERY = 5


@pytest.fixture(params=ENGINES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with schema_database(request, tmp_path, Events()) as database:
        yield database


async def keep(database: Database, *params: bytes) -> None:
    for number, each in enumerate(params):
        request = SendRequest(TransactionId(f"t{number}"), SENDER, each, number, Caller("192.0.2.1"))
        await TransactionStore(database).keep(request, 1, None, number)


async def all_pages(
    listing: TransactionListing, state: TransactionState | None, limit: int
) -> list[ListedTransaction]:
    found: list[ListedTransaction] = []
    before = None
    while True:
        page = await listing.page(state, before, limit)
        assert len(page.transactions) <= limit
        found += page.transactions
        if page.rest is None:
            return found
        before = page.rest


@each_row("rows_per_page", [1, 4, 10_000])
@each_row("limit", [1, 3, 100])
@each_row("state", [None, TransactionState.MINED, TransactionState.QUEUED, TransactionState.SENT])
async def test_pages_have_every_wanted_transaction_once_newest_first(
    database: Database, state: TransactionState | None, limit: int, rows_per_page: int
) -> None:
    await keep(database, *[b'{"to":"0x"}'] * COUNT)

    def mine() -> Transaction[None]:
        yield Statement(f"UPDATE wallet_transactions SET state = 'mined' WHERE id % {MINED_EVERY} = 0")

    await database.transaction(mine)

    found = await all_pages(TransactionListing(database, rows_per_page), state, limit)

    mined = {number for number in range(1, COUNT + 1) if number % MINED_EVERY == 0}
    every = set(range(1, COUNT + 1))
    wanted = {TransactionState.MINED: mined, TransactionState.QUEUED: every - mined, None: every}
    assert [each.number for each in found] == sorted(wanted.get(state, set()), reverse=True)


async def test_large_data_stays_in_the_database(database: Database) -> None:
    large = b'"0x' + b"00" * 10_000 + b'"'
    await keep(
        database, large, b'"0x00"', b'{"to":"0xab","value":"0x1","data":' + large + b"}", b'{"to":"0xab"}'
    )

    found = await all_pages(TransactionListing(database), None, 10)

    assert [(each.to, each.value, each.raw) for each in found] == [
        ("0xab", "0x0", None),
        ("0xab", "0x1", None),
        (None, None, b'"0x00"'),
        (None, None, None),
    ]
