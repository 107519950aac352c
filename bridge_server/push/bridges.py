"""Subscription of this push server to a topic on another server's bridge (`POST /subscribe`)."""

from typing import Self

import aiohttp
import orjson
import structlog
from aiohttp import hdrs

from bridge_server.outgoing.guard import Rule, anywhere, public_only
from bridge_server.outgoing.guarded_client import guarded_client, judge_error, read_limited
from bridge_server.outgoing.resolver import LookUp, look_up
from bridge_server.push.errors import BridgeRefusedError

log = structlog.get_logger()


class Bridges:
    """A client for other servers' bridges over guarded connections. Use it as an async context manager."""

    def __init__(
        self,
        timeout_seconds: float,
        allow_private: bool,
        user_agent: str,
        *,
        rule: Rule | None = None,
        look_up: LookUp = look_up,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._rule = rule or (anywhere if allow_private else public_only)
        self._user_agent = user_agent
        self._look_up = look_up
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = guarded_client(self._rule, self._look_up, self._timeout_seconds)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def subscribe(self, bridge: str, topic: str, webhook: str) -> None:
        """Register the webhook for the topic at the bridge. Raises BridgeRefusedError."""
        assert self._session is not None, "the bridges are not open"
        headers = {
            hdrs.CONTENT_TYPE: "application/json",
            hdrs.ACCEPT_ENCODING: "identity",
            hdrs.USER_AGENT: self._user_agent,
        }
        body = orjson.dumps({"topic": topic, "webhook": webhook})
        try:
            async with self._session.post(
                f"{bridge.rstrip('/')}/subscribe", data=body, headers=headers, allow_redirects=False
            ) as response:
                await read_limited(response)
                status = response.status
        except Exception as error:  # any fault of the other server becomes a 502 with a reason
            log.info("bridge_not_reached", reason=judge_error(error).reason)
            raise BridgeRefusedError("it cannot be reached") from error
        if not 200 <= status < 300:
            raise BridgeRefusedError(f"it answered {status}")
