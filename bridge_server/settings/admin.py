"""Settings of the admin API."""

from pydantic import BaseModel, Field

from bridge_server.settings.types import Token


class AdminSettings(BaseModel, defer_build=True):
    """Who may call the admin API."""

    admin_token: Token | None = Field(
        None, description="Serve the admin API to whoever sends this bearer token."
    )
