"""Settings of limits on requests, long polls and connections."""

from pydantic import BaseModel, Field, PositiveInt

from bridge_server.settings.types import Burst, Duration, Networks, Rate, networks


class WebSettings(BaseModel, defer_build=True):
    """Limits of a client address: requests, connections, unread bytes, and times."""

    quota_exempt: Networks = Field(
        networks("127.0.0.0/8,::1/128"), description="Clients that no quota per address applies to."
    )
    requests_per_second: Rate = Field(100, description="Requests per client address, in the long run.")
    requests_burst: Burst = Field(1000, description="Requests per client address, at once.")
    max_wait: PositiveInt = Field(25, le=300, description="The longest long poll.")
    max_address_connections: PositiveInt | None = Field(
        None,
        description="Open connections per client address; by default a quarter of the open files.",
    )
    head_timeout: Duration = Field(
        10, description="A new connection without a request is closed after this time."
    )
    unread_timeout: Duration = Field(
        30, description="A client that reads none of its answer for this long is cut off."
    )
    max_address_unread_bytes: PositiveInt = Field(
        32 * 2**20, description="Bytes that wait in memory for the clients at one address to read them."
    )
    max_unread_bytes: PositiveInt = Field(
        64 * 2**20, description="Bytes that wait in memory for clients to read them."
    )
