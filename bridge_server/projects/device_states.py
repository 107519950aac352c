"""What has become of the notifications to an account's devices, for the operator."""

from dataclasses import dataclass
from enum import Enum


class DeliveryState(Enum):
    """How a device stands. The values are what operators read."""

    NEW = "new"
    """Nothing was to be delivered yet."""
    QUEUED = "queued"
    """Something is to be delivered; perhaps attempts have failed."""
    DELIVERED = "delivered"
    FAILED = "failed"
    """The last notification was given up."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device without its address, and how its deliveries go. Times are milliseconds since the epoch."""

    device_id: str
    channel: str
    created_at_ms: int
    queued: int
    delivered_at_ms: int | None
    failed_at_ms: int | None
    last_error: str | None

    @property
    def state(self) -> DeliveryState:
        """The one word for it."""
        if self.queued:
            return DeliveryState.QUEUED
        if self.last_error is not None:
            return DeliveryState.FAILED
        return DeliveryState.NEW if self.delivered_at_ms is None else DeliveryState.DELIVERED
