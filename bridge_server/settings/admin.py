"""Settings of the admin API."""

from pydantic import BaseModel, Field

from bridge_server.settings.types import Token


class AdminSettings(BaseModel, defer_build=True):
    """Authentication of the admin API."""

    admin_token: Token | None = Field(
        None, description="The bearer token of the admin API; without one, there is no admin API."
    )
    traffic: bool | None = Field(
        None,
        description="Keep the last requests in memory for the operator; by default if there is a console.",
    )
