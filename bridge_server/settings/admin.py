"""Settings of the admin API."""

from typing import Self

from pydantic import BaseModel, Field, model_validator

from bridge_server.settings.checks import require_current
from bridge_server.settings.types import Token


class AdminSettings(BaseModel, defer_build=True):
    """Authentication of the admin API, and whether its bearer may sign."""

    admin_token: Token | None = Field(
        None, description="The bearer token of the admin API; without one, there is no admin API."
    )
    admin_token_previous: Token | None = Field(
        None, description="The admin_token of before, which is accepted too while its bearers change."
    )
    admin_wallet: bool = Field(
        False, description="The bearer of admin_token may approve, reject, unlock and lock."
    )
    traffic: bool | None = Field(
        None,
        description="Keep the last requests in memory for the operator; by default if there is a console.",
    )

    @model_validator(mode="after")
    def _the_previous_admin_token_has_a_successor(self) -> Self:
        require_current("admin_token", self.admin_token, self.admin_token_previous)
        return self
