"""Settings of the admin API."""

from typing import Literal

from pydantic import BaseModel, Field

from bridge_server.settings.types import Token


class AdminSettings(BaseModel, defer_build=True):
    """Authentication of the admin API."""

    admin_token: Token | None = Field(
        None, description="The bearer token of the admin API; without one, there is no admin API."
    )
    traffic: Literal["auto", "off", "on"] = Field(
        "auto",
        description="Whether the last requests are kept in memory for the operator; auto: as the console is.",
    )
