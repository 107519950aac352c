"""Settings of webhooks and of other messages of the outbox."""

from typing import Self

from pydantic import BaseModel, Field, model_validator

from bridge_server.settings.checks import require_current
from bridge_server.settings.types import DAY, Duration, Seconds, SigningSecret


class OutboxSettings(BaseModel, defer_build=True):
    """Calls of webhooks, and the lifetime of dead letters."""

    webhook_timeout: Duration = Field(10, description="How long a webhook may take to answer.")
    webhook_secret: SigningSecret | None = Field(
        None, description="Signs webhooks (Standard Webhooks): whsec_ and 24 to 64 random bytes in Base64."
    )
    webhook_secret_previous: SigningSecret | None = Field(
        None, description="The webhook_secret of before, which signs webhooks too while receivers change."
    )
    allow_private_webhooks: bool = Field(
        False, description="Call webhooks at private and loopback addresses too. For development."
    )
    dead_letter_ttl: Seconds = Field(7 * DAY, description="A webhook that failed for good is kept this long.")

    @model_validator(mode="after")
    def _the_previous_webhook_secret_has_a_successor(self) -> Self:
        require_current("webhook_secret", self.webhook_secret, self.webhook_secret_previous)
        return self
