"""Settings of the console."""

from typing import Self

from pydantic import Field, model_validator

from bridge_server.settings.server import ServerSettings
from bridge_server.settings.types import Port


class ConsoleSettings(ServerSettings, defer_build=True):
    """Whether there is a console, and its address."""

    console: bool = Field(False, description="Pages for the operator at /console: on or off.")
    console_port: Port | None = Field(
        None, description="A separate port for /console; by default it is on the server's port."
    )
    console_host: str = Field("127.0.0.1", description="The address of console_port.")

    @model_validator(mode="after")
    def _a_port_is_for_a_console(self) -> Self:
        if self.console_port is not None and not self.console:
            raise ValueError("console_port: the console is off: set console=on too, or leave the port out")
        return self
