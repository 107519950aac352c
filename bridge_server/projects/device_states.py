"""The states of deliveries to an account's devices, for the operator."""

from dataclasses import dataclass
from enum import Enum


class DeliveryState(Enum):
    """The state of deliveries to a device. Operators see the values."""

    NEW = "new"
    """No notification has been queued yet."""
    QUEUED = "queued"
    """A notification is queued; attempts may have failed."""
    DELIVERED = "delivered"
    FAILED = "failed"
    """The last notification could not be delivered, and is not retried any more."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device without its address, and its deliveries. Times are milliseconds since the Unix epoch."""

    device_id: str
    channel: str
    created_at_ms: int
    queued: int
    delivered_at_ms: int | None
    failed_at_ms: int | None
    last_error: str | None

    @property
    def state(self) -> DeliveryState:
        """The state that follows from the deliveries."""
        if self.queued:
            return DeliveryState.QUEUED
        if self.last_error is not None:
            return DeliveryState.FAILED
        return DeliveryState.NEW if self.delivered_at_ms is None else DeliveryState.DELIVERED


@dataclass(frozen=True, slots=True)
class DeviceDelivery:
    """A message to a device that is still in the outbox: it waits, or it has failed for good.

    A message that has failed for good has no next attempt. Times are milliseconds since the Unix epoch.
    """

    device_id: str
    channel: str
    project_id: str | None
    attempts: int
    created_at_ms: int
    next_attempt_at_ms: int | None
    last_error: str | None
