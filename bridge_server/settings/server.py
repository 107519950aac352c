"""Settings of the addresses of the server and of its proxies."""

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, model_validator

from bridge_server.kernel.ip_addresses import is_loopback
from bridge_server.settings.types import HOUR, Networks, Port, Url


class ServerSettings(BaseModel, defer_build=True):
    """The addresses of the server and of proxies in front of it."""

    host: str = Field("127.0.0.1", description="The address to listen on; 0.0.0.0 or :: for every one.")
    port: Port = Field(8080, description="The port to listen on; 0 picks a free one.")
    public_url: Url | None = Field(
        None, description="The URL at which clients reach this server; by default its own address."
    )
    trusted_proxies: Networks = Field((), description="Proxies whose X-Forwarded-For is trusted.")
    internal_url: Url | None = Field(
        None,
        description="The URL at which other processes on the PostgreSQL database reach this one; by default "
        "where it listens.",
    )
    processes: Annotated[int, Field(ge=1, le=64)] = Field(
        1, description="Processes of this server on this machine; several need a PostgreSQL database."
    )
    drain_seconds: Annotated[float, Field(ge=0, le=HOUR)] = Field(
        0,
        description="After SIGTERM, /readyz is 503 for this long before anything ends: for a load balancer.",
    )

    @model_validator(mode="after")
    def _each_process_has_an_internal_port(self) -> Self:
        if self.processes > 1 and self.internal_url is not None and urlsplit(self.internal_url).port is None:
            raise ValueError(
                "internal_url: each of the processes listens at a port of its own: name the first one, as in "
                "http://10.0.0.5:9001"
            )
        return self

    @property
    def way_through_a_proxy(self) -> str | None:
        """The setting that shows that clients come through a proxy; None without one."""
        if self.trusted_proxies:
            return "trusted_proxies"
        public_host = urlsplit(self.public_url or "").hostname
        return "public_url" if public_host is not None and not is_loopback(public_host) else None
