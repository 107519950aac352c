"""Settings of logs and metrics."""

from typing import Literal, Self

from pydantic import Field, model_validator

from bridge_server.kernel.ip_addresses import is_loopback
from bridge_server.settings.checks import require_current
from bridge_server.settings.server import ServerSettings
from bridge_server.settings.types import Duration, Port, Token


class ReportingSettings(ServerSettings, defer_build=True):
    """Settings of the log and of metrics."""

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The lowest level that is logged."
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a terminal, JSON otherwise."
    )
    access_log: bool = Field(False, description="Log every request, not only errors and slow ones.")
    slow_request_seconds: Duration = Field(1.0, description="A request that takes longer is logged.")
    metrics_port: Port | None = Field(None, description="A separate port for /metrics.")
    metrics_host: str | None = Field(
        None, description="The address of metrics_port; by default the value of host."
    )
    metrics_token: Token | None = Field(
        None, description="The bearer token of /metrics; without one, the main port has no /metrics."
    )
    metrics_token_previous: Token | None = Field(
        None, description="The metrics_token of before, which is accepted too while its bearers change."
    )

    @model_validator(mode="after")
    def _the_previous_metrics_token_has_a_successor(self) -> Self:
        require_current("metrics_token", self.metrics_token, self.metrics_token_previous)
        return self

    @model_validator(mode="after")
    def _metrics_for_others_want_a_token(self) -> Self:
        if self.metrics_are_guarded and self.metrics_token is None:
            raise ValueError(
                f"metrics_port: others than this machine can reach {self._metrics_host}: set metrics_token, "
                "which they must then send, or listen on 127.0.0.1"
            )
        return self

    @property
    def metrics_are_guarded(self) -> bool:
        """Whether the port of the metrics asks for `metrics_token`, since others can reach it."""
        return self.metrics_port is not None and not is_loopback(self._metrics_host)

    @property
    def _metrics_host(self) -> str:
        """The address of `metrics_port`."""
        return self.metrics_host or self.host
