"""The numbers of due and dead messages, without a count after each commit.

No public door reaches commits beside a count.
"""

import asyncio
import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.store import OutboxStore, enqueue_all, withdraw
from tests.outbox.running import HOOK, Outbox, Start
from tests.support.clock import ManualClock
from tests.support.engines import database_of, settings_over
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver, reset, status

_COUNT = """
SELECT count(*) FILTER (WHERE next_attempt_at_ms IS NOT NULL), count(*) FILTER (WHERE died_at_ms IS NOT NULL)
FROM outbox
"""


async def agrees(outbox: Outbox) -> bool:
    """Whether the figures equal the table, which may change in between."""
    figures = outbox.dispatcher.figures()
    return await outbox.database.read(_COUNT) == [(figures["due"], figures["dead"])]


async def owe_devices(outbox: Outbox, url: str, devices: Sequence[str], turn: int) -> None:
    messages = [
        OutgoingMessage(f"{device}.{turn}.{number}", url, b"{}", HOOK, device_id=device, subject="project")
        for device, number in product(devices, range(3))
    ]
    await outbox.database.transaction(lambda: enqueue_all(messages, outbox.clock.now_ms()))


async def withdraw_all(outbox: Outbox, device: str) -> None:
    await outbox.database.transaction(lambda: withdraw(device))


@each_row("seed", range(4))
async def test_the_figures_are_exact_after_every_commit(
    start: Start, file: Path, clock: ManualClock, receiver: WebhookReceiver, seed: int
) -> None:
    chance, devices = random.Random(seed), ["one", "two", "three"]
    answers = [status(200), status(500), status(410), reset]
    async with start() as outbox:
        store = OutboxStore(outbox.database)
        for turn in range(25):
            receiver.script.append(chance.choice(answers))
            await owe_devices(outbox, receiver.url(), chance.sample(devices, 2), turn)
            if chance.random() < 0.5:
                await withdraw_all(outbox, chance.choice(devices))
            if chance.random() < 0.3:
                await outbox.pass_time(3_600)
            if chance.random() < 0.2:
                await store.sweep(clock.now_ms() - 1, 0, 10)
            if chance.random() < 0.2:
                with database_of(settings_over(file.parent)) as database:
                    database.changed(
                        "INSERT INTO outbox (message_id, destination, url, body, created_at_ms,"
                        " next_attempt_at_ms) VALUES ('outside', 'unreadable', 'hook', ?, 0, 0)",
                        (b"{}",),
                    )
                await outbox.dispatcher.recount()
            await eventually(lambda: agrees(outbox))

        receiver.script.clear()
        receiver.otherwise = status(500)
        await owe_devices(outbox, receiver.url(), devices, 25)
        await eventually(lambda: agrees(outbox))
        figures = outbox.dispatcher.figures()
        assert figures["due"] + figures["dead"] > 0


async def test_a_count_beside_a_thousand_commits_misses_none_and_counts_none_twice(outbox: Outbox) -> None:
    async def write(turn: int) -> None:
        await owe_devices(outbox, "fcm:nobody", [f"device {turn % 5}"], turn)
        if turn % 15 in (0, 6):
            await withdraw_all(outbox, f"device {turn % 5}")

    await outbox.dispatcher.stop()
    await asyncio.gather(
        *(write(turn) for turn in range(300)), *(outbox.dispatcher.recount() for _ in range(10))
    )

    assert await agrees(outbox)
    assert outbox.dispatcher.figures()["due"] > 0
