"""Each choice of types is stored once, knows how many make it, and is forgotten with the last of them.

The counts in the tables are read: a wrong one shows to clients only years later.
"""

from pathlib import Path
from random import Random

import pytest

from bridge_server.projects.caip10 import parse_account
from bridge_server.projects.models import NewSubscription, TypeId
from bridge_server.settings.settings import Settings
from bridge_server.storage.migrate import migrate, packaged_migrations
from tests.storage.notes import ask
from tests.support.clock import ManualClock
from tests.support.project import accounts, operator_beside, unsubscribe


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_happens_the_counts_are_right(tmp_path: Path, seed: int) -> None:
    file, chance, everybody, types = tmp_path / "bridge.sqlite3", Random(seed), accounts(12), list("abcd")
    migrate(file, packaged_migrations())
    async with operator_beside(Settings(data_dir=tmp_path), ManualClock()) as operator:
        await operator.projects.create("App", "app")
        for type_id in types:
            await operator.projects.add_type("app", type_id.upper(), type_id)
        for turn in range(60):
            some = chance.sample(everybody, chance.randint(1, 5))
            if turn == 40:
                await operator.projects.remove_type("app", types.pop())
            elif chance.random() < 0.3:
                await unsubscribe(operator, "app", *some)
            else:  # in one transaction
                choices = [chance.sample(types, chance.randint(0, len(types))) for _ in some]
                new = [
                    NewSubscription(parse_account(spelled), tuple(map(TypeId, chosen)))
                    for spelled, chosen in zip(some, choices, strict=True)
                ]
                await operator.subscriptions.subscribe_all("app", new)

            counted = ask(file, "SELECT type_set, count(*) FROM subscriptions GROUP BY 1 ORDER BY 1")
            assert ask(file, "SELECT id, subscribers FROM type_sets ORDER BY 1") == counted
            details = await operator.projects.show("app")
            assert details.subscribers == sum(count for _, count in counted)
    left_over = "SELECT * FROM type_set_members WHERE type_set NOT IN (SELECT id FROM type_sets)"
    assert ask(file, left_over) == []
