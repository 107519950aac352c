"""Settings of the relay: sessions, calls and subscriptions."""

from typing import Any, Self

from pydantic import BaseModel, Field, PositiveInt, model_validator

from bridge_server.settings.types import DAY, HOUR, Burst, Rate, Seconds

_CALL_LIFETIMES = frozenset({"call_ttl", "status_ttl"})


class RelaySettings(BaseModel, defer_build=True):
    """Lifetimes and limits of sessions, calls and subscriptions."""

    relay_body_limit: PositiveInt = Field(256 * 1024, description="The largest body the bridge accepts.")
    sessions_per_minute: Rate = Field(60, description="New sessions per client address, in the long run.")
    sessions_burst: Burst = Field(120, description="New sessions per client address, at once.")
    session_ttl: Seconds = Field(
        DAY, description="A session lives this long from the wallet's last update or the dapp's last call."
    )
    call_ttl: Seconds = Field(
        HOUR, description="A call lives this long; unless set, at most half of `session_ttl`."
    )
    status_ttl: Seconds = Field(
        HOUR, description="A call status lives this long; unless set, at most half of `session_ttl`."
    )
    subscription_ttl: Seconds = Field(
        30 * DAY, description="A webhook of /subscribe is called this long unless renewed."
    )
    payload_bytes_per_address: PositiveInt = Field(
        32 * 2**20,
        description="Payload bytes that a client address stores at once; they come back over `call_ttl`.",
    )
    payload_bytes_in_all: PositiveInt = Field(
        4 * 2**30,
        description="Payload bytes that all clients together store at once; they come back over `call_ttl`.",
    )
    subscription_bytes_per_address: PositiveInt = Field(
        64 * 2**20,
        description="Bytes of subscriptions that a client address stores at once; "
        "they come back over `subscription_ttl`.",
    )
    subscription_bytes_in_all: PositiveInt = Field(
        4 * 2**30,
        description="Bytes of subscriptions (/subscribe, /new) that all clients together store at once.",
    )
    max_pending_calls: PositiveInt = Field(100, description="Calls without a status, per session.")
    max_topic_webhooks: PositiveInt = Field(16, description="Webhooks per topic.")

    @model_validator(mode="before")
    @classmethod
    def _calls_of_short_sessions_are_short(cls, values: Any) -> Any:
        """A short `session_ttl` alone is a complete configuration: calls and statuses share its time."""
        if _CALL_LIFETIMES & values.keys() or not str(values.get("session_ttl", "")).isdecimal():
            return values
        half = min(HOUR, int(values["session_ttl"]) // 2)
        return {**values, **dict.fromkeys(_CALL_LIFETIMES, half)} if half else values

    @model_validator(mode="after")
    def _sessions_outlive_calls(self) -> Self:
        if self.session_ttl < self.call_ttl + self.status_ttl:
            raise ValueError("session_ttl must be at least call_ttl + status_ttl: raise it or lower those")
        return self
