"""The setting of test mode."""

from typing import Self

from pydantic import Field, model_validator

from bridge_server.kernel.ip_addresses import is_loopback
from bridge_server.settings.server import ServerSettings


class TestModeSettings(ServerSettings, defer_build=True):
    """Whether tests control the server."""

    __test__ = False

    test: bool = Field(
        False, description="Let tests control the server by the routes at /_test, on this machine only."
    )

    @model_validator(mode="after")
    def _tests_are_on_this_machine(self) -> Self:
        if self.test and self.processes > 1:
            raise ValueError("test: tests control one process: leave out processes, or test")
        if self.test and not is_loopback(self.host):
            raise ValueError(
                f"test: tests control the server, and host {self.host} is open to others than this machine: "
                "listen on 127.0.0.1, or leave it out"
            )
        if self.test and self.way_through_a_proxy is not None:
            raise ValueError(
                f"test: tests control the server, and {self.way_through_a_proxy} says that others than this "
                "machine come through a proxy: leave out one of the two"
            )
        return self
