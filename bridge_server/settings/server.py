"""Settings of the server's addresses: its own, and those of proxies before it."""

from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from bridge_server.kernel.ip_addresses import is_loopback
from bridge_server.settings.types import Networks, Port, Url


class ServerSettings(BaseModel, defer_build=True):
    """Where the server listens, and how others reach it."""

    host: str = Field("127.0.0.1", description="The address to listen on; 0.0.0.0 or :: for every one.")
    port: Port = Field(8080, description="The port to listen on; 0 picks a free one.")
    public_url: Url | None = Field(
        None, description="How others reach this server; by default its own address."
    )
    trusted_proxies: Networks = Field((), description="Proxies whose X-Forwarded-For is believed.")

    @property
    def way_through_a_proxy(self) -> str | None:
        """The setting by which others than this machine come through a proxy; None when none says so."""
        if self.trusted_proxies:
            return "trusted_proxies"
        public_host = urlsplit(self.public_url or "").hostname
        return "public_url" if public_host is not None and not is_loopback(public_host) else None
