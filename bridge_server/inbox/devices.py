"""Devices of an account, to which its notifications are delivered as pushes or webhooks."""

from collections.abc import Sequence
from typing import Protocol

from bridge_server.inbox.device_store import DeviceStore
from bridge_server.inbox.models import Device, DeviceId, NewDevice, Reader
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.ids import IdMaker
from bridge_server.outbox.models import DeviceEndpoint, OutgoingMessage


class DeviceChannels(Protocol):
    """The configured channels to devices."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the channels."""
        ...

    def named(self, name: str) -> str | None:
        """The channel with this name or alias; None if it is not configured."""
        ...

    def address(self, channel: str, token: str) -> DeviceEndpoint:
        """The address of a device. Raises ValueError if the token does not have the channel's form."""
        ...


class Devices:
    """Registration of devices. Each notification is queued for each device (notify/device_notices.py)."""

    def __init__(
        self, store: DeviceStore, channels: DeviceChannels, clock: Clock, ids: IdMaker, most: int
    ) -> None:
        self._store = store
        self.channels = channels
        self._clock = clock
        self._ids = ids
        self.most_per_account = most

    async def of_reader(self, reader: Reader) -> Sequence[Device]:
        """The account's devices, oldest first."""
        return await self._store.devices(reader.number)

    async def add(self, reader: Reader, device: NewDevice) -> Device:
        """Register a device. A device that is already registered is unchanged. Raises TooManyDevicesError."""
        device_id = DeviceId(self._ids.random_uuid())
        return await self._store.add(
            reader.number, device_id, device, self._clock.now_ms(), self.most_per_account
        )

    async def remove(self, reader: Reader, device_id: DeviceId) -> None:
        """Remove a device. Raises DeviceNotFoundError."""
        await self._store.remove(reader.number, device_id)

    async def forget_receiver(self, message: OutgoingMessage) -> None:
        """Remove the device of a message whose receiver has answered that the device is gone."""
        if message.device_id is not None:
            await self._store.forget(DeviceId(message.device_id), message.url, message.message_id)
