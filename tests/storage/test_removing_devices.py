"""Removing a device deletes its queued messages in one transaction.

The tables are read on both engines: what is withdrawn and what stays is one transaction.
"""

import pytest

from bridge_server.inbox.devices import DeviceStore
from bridge_server.inbox.models import DeviceId, DeviceNotFoundError
from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.notify.service import DEVICE
from bridge_server.outbox.models import OutboxChanged, OutgoingMessage, Queue
from bridge_server.outbox.store import OutboxStore, enqueue
from bridge_server.storage.database import Database, Row, Statement, Transaction

OLD, OTHER = DeviceId("old"), DeviceId("other")


@pytest.fixture
async def database(rooms: Database) -> Database:
    """Two devices with three messages each, of which the first is a dead letter."""

    def write() -> Transaction[None]:
        yield Statement("INSERT INTO accounts (id, account_key) VALUES (7, 'key')")
        for device in (OLD, OTHER):
            address = f"fcm:{device}"
            yield Statement(
                "INSERT INTO devices (account, device_id, channel, address, created_at_ms)"
                " VALUES (7, ?, 'fcm', ?, 0)",
                (device, address),
            )
            for number in range(3):
                message = OutgoingMessage(f"{device}.{number}", address, b"{}", DEVICE, device_id=device)
                yield from enqueue(message, number)

    await rooms.transaction(write)
    outbox = OutboxStore(rooms)
    for due in await outbox.next_messages(Queue("fcm", ""), 9, 2):
        await outbox.bury(due, 5, "late", None)
    return rooms


async def kept(database: Database) -> tuple[list[Row], list[str]]:
    """The devices, and the messages of the old one."""
    messages = await database.read("SELECT message_id FROM outbox WHERE device_id = 'old' ORDER BY id")
    assert await database.read("SELECT count(*) FROM outbox WHERE device_id = 'other'") == [(3,)]
    return await database.read("SELECT device_id FROM devices ORDER BY id"), [str(row[0]) for row in messages]


async def test_a_removed_device_is_owed_only_its_dead_letters(database: Database, events: Events) -> None:
    published: list[DomainEvent] = []
    events.subscribe(OutboxChanged, published.append)
    devices = DeviceStore(database)
    await devices.forget(OLD, "fcm:another address", "old.1")
    with pytest.raises(DeviceNotFoundError):
        await devices.remove(8, OLD)
    assert await kept(database) == ([("old",), ("other",)], ["old.0", "old.1", "old.2"])

    await devices.remove(7, OLD)
    assert await kept(database) == ([("other",)], ["old.0"])
    assert published == [OutboxChanged(pending=-2)]


async def test_the_message_that_finds_a_device_dead_is_left_to_be_settled(database: Database) -> None:
    await DeviceStore(database).forget(OLD, "fcm:old", "old.1")
    assert await kept(database) == ([("other",)], ["old.0", "old.1"])
