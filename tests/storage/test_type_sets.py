"""Each choice of types is stored once, knows how many make it, and is forgotten with the last of them.

The counts in the tables are read: a wrong one shows to clients only years later.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from bridge_server.assembly.command_line import OperatorServices
from bridge_server.projects.caip10 import parse_account
from bridge_server.projects.models import NewSubscription, TypeId
from bridge_server.settings.settings import Settings
from bridge_server.storage.migrate import migrate, packaged_migrations
from tests.storage.notes import ask
from tests.support.clock import ManualClock
from tests.support.project import accounts, operator_beside, unsubscribe

PROJECT = "app"
TYPES = ["a", "b", "c", "d"]


@dataclass(frozen=True, slots=True)
class Room:
    """A project with four types, and the file that it is in."""

    operator: OperatorServices
    file: Path

    async def subscribe_in_one_transaction(self, *wanted: tuple[str, Sequence[str]]) -> None:
        new = [
            NewSubscription(parse_account(spelled), tuple(TypeId(type_id) for type_id in types))
            for spelled, types in wanted
        ]
        await self.operator.subscriptions.subscribe_all(PROJECT, new)


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    file = tmp_path / "bridge.sqlite3"
    migrate(file, packaged_migrations())
    async with operator_beside(Settings(data_dir=file.parent), ManualClock()) as operator:
        await operator.projects.create("App", PROJECT)
        for type_id in TYPES:
            await operator.projects.add_type(PROJECT, type_id.upper(), type_id)
        yield Room(operator, file)


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_happens_the_counts_are_right(room: Room, seed: int) -> None:
    chance, everybody, types = Random(seed), accounts(12), list(TYPES)
    for turn in range(60):
        some = chance.sample(everybody, chance.randint(1, 5))
        if turn == 40:
            await room.operator.projects.remove_type(PROJECT, types.pop())
        elif chance.random() < 0.3:
            await unsubscribe(room.operator, PROJECT, *some)
        else:
            choices = [chance.sample(types, chance.randint(0, len(types))) for _ in some]
            await room.subscribe_in_one_transaction(*zip(some, choices, strict=True))

        counted = ask(room.file, "SELECT type_set, count(*) FROM subscriptions GROUP BY 1 ORDER BY 1")
        assert ask(room.file, "SELECT id, subscribers FROM type_sets ORDER BY 1") == counted
        details = await room.operator.projects.show(PROJECT)
        assert details.subscribers == sum(count for _, count in counted)
    left_over = "SELECT * FROM type_set_members WHERE type_set NOT IN (SELECT id FROM type_sets)"
    assert ask(room.file, left_over) == []
