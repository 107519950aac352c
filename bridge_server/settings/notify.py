"""Settings of the notification service."""

from typing import Self

from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, model_validator

from bridge_server.settings.types import DAY, Burst, Seconds


class NotifySettings(BaseModel, defer_build=True):
    """Limits and lifetimes of notifications."""

    account_rate_per_hour: float = Field(
        2,
        ge=0.001,
        le=1_000_000,
        description="Notifications to one account from one project, in the long run.",
    )
    account_burst: Burst = Field(50, description="Notifications to one account from one project, at once.")
    notify_body_limit: PositiveInt = Field(
        512 * 1024, description="The largest body that the notification service accepts."
    )
    read_notification_ttl: Seconds = Field(
        90 * DAY, description="A notification is kept this long after it was read."
    )
    unread_notification_ttl: Seconds = Field(
        365 * DAY, description="A notification is kept at most this long after it was sent."
    )
    missed_account_ttl: Seconds = Field(
        30 * DAY,
        description="An account that a notification has not reached is kept this long, with the reason.",
    )
    max_missed_accounts: NonNegativeInt = Field(
        100_000, description="Accounts of one project that are kept with such a reason; the oldest go first."
    )

    @model_validator(mode="after")
    def _unread_outlives_read(self) -> Self:
        if self.unread_notification_ttl < self.read_notification_ttl:
            raise ValueError("unread_notification_ttl must be at least read_notification_ttl")
        return self
