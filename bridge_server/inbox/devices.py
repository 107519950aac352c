"""Where else an account wants its notifications: the seam for every channel that delivers."""

from collections.abc import Sequence
from typing import Protocol

from bridge_server.inbox.device_store import DeviceStore
from bridge_server.inbox.models import Device, DeviceId, NewDevice, Reader
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.ids import IdMaker
from bridge_server.outbox.models import OutgoingMessage


class DeviceAddress(Protocol):
    """Where a device is reached, in the outbox's terms."""

    @property
    def url(self) -> str:
        """A webhook's URL, or one whose scheme is the channel."""
        ...

    @property
    def lane(self) -> str | None:
        """What its messages wait in; None: that of the URL's host."""
        ...


class DeviceChannels(Protocol):
    """The ways to a device that are configured, by the names that clients use."""

    @property
    def names(self) -> tuple[str, ...]:
        """What there is to choose from."""
        ...

    def named(self, name: str) -> str | None:
        """The channel that a client means; None when there is no such."""
        ...

    def address(self, channel: str, token: str) -> DeviceAddress:
        """Where the token leads. Raises ValueError for one that is none of the channel's."""
        ...


class Devices:
    """The rules of registering devices; publishing queues a message for each (notify/device_notices.py)."""

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
        """Send to this device too from now on; one that is there already stays as it is.

        Raises TooManyDevicesError.
        """
        device_id = DeviceId(self._ids.random_uuid())
        return await self._store.add(
            reader.number, device_id, device, self._clock.now_ms(), self.most_per_account
        )

    async def remove(self, reader: Reader, device_id: DeviceId) -> None:
        """Send to this device no more. Raises DeviceNotFoundError."""
        await self._store.remove(reader.number, device_id)

    async def forget_receiver(self, message: OutgoingMessage) -> None:
        """Remove the device of a message whose receiver has answered that the device is gone."""
        if message.device_id is not None:
            await self._store.forget(DeviceId(message.device_id), message.url, message.message_id)
