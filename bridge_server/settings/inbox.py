"""Settings of inboxes."""

from pydantic import BaseModel, Field, PositiveInt

from bridge_server.settings.types import DAY, Origins, Seconds


class InboxSettings(BaseModel, defer_build=True):
    """Sign-in to inboxes, and the lifetime of inbox sessions."""

    inbox_origins: Origins = Field(
        (), description="Web pages that may use inboxes, such as https://app.example.org."
    )
    inbox_body_limit: PositiveInt = Field(64 * 1024, description="The largest body that an inbox accepts.")
    inbox_token_ttl: Seconds = Field(30 * DAY, description="A sign-in to an inbox is valid this long.")
    sign_in_ttl: Seconds = Field(600, description="A nonce for a sign-in is valid this long.")
    max_devices: PositiveInt = Field(16, description="Devices per account.")
    max_streams: PositiveInt = Field(32, description="Open streams per account.")
