"""Settings of the WebSocket relay of generations 1.x and 2.x."""

from pydantic import BaseModel, Field, PositiveInt

from bridge_server.settings.types import DAY, Burst, Duration, ProjectIds, Rate, Seconds


class PubSubSettings(BaseModel, defer_build=True):
    """Lifetimes and limits of messages, sockets and topics."""

    message_limit: PositiveInt = Field(256 * 1024, description="The largest message on a WebSocket.")
    message_ttl: Seconds = Field(DAY, description="A message waits this long for a subscriber of its topic.")
    max_topic_messages: PositiveInt = Field(1000, description="Messages that wait on one topic.")
    max_topic_bytes: PositiveInt = Field(2**20, description="Bytes that wait on one topic.")
    max_address_messages: PositiveInt = Field(
        10_000, description="Messages that wait and came from one client address."
    )
    max_address_bytes: PositiveInt = Field(
        16 * 2**20, description="Bytes that wait and came from one client address."
    )
    messages_per_second: Rate = Field(
        100, description="Messages on WebSockets per client address, in the long run."
    )
    messages_burst: Burst = Field(1000, description="Messages on WebSockets per client address, at once.")
    max_sockets: PositiveInt = Field(1000, description="Open WebSockets per client address.")
    max_socket_topics: PositiveInt = Field(1000, description="Topics that one WebSocket may subscribe to.")
    heartbeat: Duration = Field(
        30, description="Interval of pings on a WebSocket; a client that sends nothing in between is cut off."
    )
    relay_check_audience: bool = Field(
        False, description="Clients of generation 2.x must have made their tokens for this server's URL."
    )
    project_ids: ProjectIds = Field(
        (), description="Project ids of generation 2.x that may connect; by default any, or none."
    )
    max_client_topics: PositiveInt = Field(
        1000, description="Topics that one client of generation 2.x may be subscribed to."
    )
    max_client_messages: PositiveInt = Field(
        10_000, description="Messages that wait and came from one client of generation 2.x."
    )
    max_client_bytes: PositiveInt = Field(
        16 * 2**20, description="Bytes that wait and came from one client of generation 2.x."
    )
    max_remembered_calls: PositiveInt = Field(
        200_000,
        description="Publications of generation 2.x that are known again if repeated within 5 minutes.",
    )
