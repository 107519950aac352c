"""Devices in SQL."""

from __future__ import annotations  # those of inner functions would be evaluated at every call

from collections.abc import Sequence
from typing import cast

from bridge_server.inbox.errors import DeviceNotFoundError, TooManyDevicesError
from bridge_server.inbox.models import Device, DeviceId, NewDevice
from bridge_server.storage.database import Database, Row, Statement, Transaction
from bridge_server.storage.outbox_store import withdraw

_DEVICES = """
SELECT device_id, channel, address, created_at_ms FROM devices WHERE account = ? ORDER BY id
"""
_SAME = """
SELECT device_id, channel, address, created_at_ms FROM devices
WHERE account = ? AND channel = ? AND address = ?
"""
_COUNT = "SELECT count(*) FROM devices WHERE account = ?"
_INSERT = """
INSERT INTO devices (account, device_id, channel, address, lane, created_at_ms) VALUES (?, ?, ?, ?, ?, ?)
"""
_DELETE = "DELETE FROM devices WHERE account = ? AND device_id = ?"
_FORGET = "DELETE FROM devices WHERE device_id = ? AND address = ?"


class SqlDeviceStore:
    """Implements the store of devices on any database that speaks the portable SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def devices(self, account: int) -> Sequence[Device]:
        return [_device(row) for row in await self._database.read(_DEVICES, (account,))]

    async def add(
        self, account: int, device_id: DeviceId, device: NewDevice, now_ms: int, limit: int
    ) -> Device:
        def work() -> Transaction[Device]:
            known = yield Statement(_SAME, (account, device.channel, device.url))
            if known:
                return _device(known[0])
            ((count,),) = yield Statement(_COUNT, (account,))
            if cast(int, count) >= limit:
                raise TooManyDevicesError(limit)
            row = (account, device_id, device.channel, device.url, device.lane, now_ms)
            yield Statement(_INSERT, row)
            return Device(device_id, device.channel, device.url, now_ms)

        return await self._database.transaction(work, adds=True)

    async def remove(self, account: int, device_id: DeviceId) -> None:
        def work() -> Transaction[None]:
            ((deleted,),) = yield Statement(_DELETE, (account, device_id))
            if not deleted:
                raise DeviceNotFoundError
            yield from withdraw(device_id)

        await self._database.transaction(work)

    async def forget(self, device_id: DeviceId, address: str, message_id: str) -> None:
        def work() -> Transaction[None]:
            ((deleted,),) = yield Statement(_FORGET, (device_id, address))
            if deleted:
                yield from withdraw(device_id, message_id)

        await self._database.transaction(work)


def _device(row: Row) -> Device:
    device_id, channel, address, created_at_ms = row
    return Device(
        DeviceId(cast(str, device_id)), cast(str, channel), cast(str, address), cast(int, created_at_ms)
    )
