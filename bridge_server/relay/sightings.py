"""When each side of a session was last seen, and what its dapp calls itself: in memory alone.

A session is known by its own id and by those of its calls. When many are known, those that were not seen for
the longest are forgotten.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import orjson
from aiohttp import web

from bridge_server.kernel.clock import Clock
from bridge_server.relay.dialect import Dialect

MOST_YOUNG = 20_000
"""The ids that were seen last; at most so many older ones are known besides."""

DAPP_NAME = web.RequestKey("dapp_name", str)
"""What a dapp calls itself, in a request that asks for a call."""


@dataclass(slots=True)
class Sighting:
    """A session as its requests showed it. Times are microseconds of the clock's elapsed time."""

    dialect: str
    dapp_at_us: int | None = None
    wallet_at_us: int | None = None
    dapp_name: str | None = None


class Sightings:
    """The sessions that were seen since the start."""

    def __init__(self, clock: Clock, most: int = MOST_YOUNG) -> None:
        self._clock = clock
        self._most = most
        self._young: dict[str, Sighting] = {}
        self._old: dict[str, Sighting] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def of(self, any_id: str) -> Sighting | None:
        """The session of this id, or of the call of this id."""
        return self._young.get(any_id) or self._old.get(any_id)

    def ago_ms(self, seen_at_us: int) -> int:
        """How long ago that was."""
        return max(0, self._clock.elapsed_us() - seen_at_us) // 1_000

    def clear(self) -> None:
        """Forget every session."""
        self._young = {}
        self._old = {}

    def watcher(
        self, dialect: Dialect, side: Literal["dapp", "wallet"], makes: str, id_name: str
    ) -> Callable[[web.Request, web.StreamResponse], None]:
        """What is to be called with each request of a route that succeeded.

        `id_name` is the parameter of its path that names the session or the call.
        """
        if makes == "session":
            return self._opening(dialect)
        see = self._seeing(dialect, side, id_name)
        if makes != "call":
            return see

        def see_call(request: web.Request, response: web.StreamResponse) -> None:
            see(request, response)
            self._learn(request, response)

        return see_call

    def _seeing(
        self, dialect: Dialect, side: Literal["dapp", "wallet"], id_name: str
    ) -> Callable[[web.Request, web.StreamResponse], None]:
        elapsed_us, is_dapp, kind = self._clock.elapsed_us, side == "dapp", dialect.route_prefix

        def see(request: web.Request, _: web.StreamResponse) -> None:
            any_id = request.match_info[id_name]
            seen = self._young.get(any_id) or self._remember(any_id, kind)
            if is_dapp:
                seen.dapp_at_us = elapsed_us()
            else:
                seen.wallet_at_us = elapsed_us()

        return see

    def _opening(self, dialect: Dialect) -> Callable[[web.Request, web.StreamResponse], None]:
        def see(_: web.Request, response: web.StreamResponse) -> None:
            session_id = _member(response, "sessionId")
            if session_id is not None:
                self._remember(session_id, dialect.route_prefix).dapp_at_us = self._clock.elapsed_us()

        return see

    def _learn(self, request: web.Request, response: web.StreamResponse) -> None:
        """A call was asked for: its id leads to the session, and the request names the dapp."""
        seen, call_id = self.of(request.match_info["session_id"]), _member(response, "callId")
        if seen is None or call_id is None:
            return
        self._add(call_id, seen)
        if seen.dapp_name is None:
            seen.dapp_name = request.get(DAPP_NAME)

    def _remember(self, any_id: str, dialect: str) -> Sighting:
        return self._add(any_id, self._old.get(any_id) or Sighting(dialect))

    def _add(self, any_id: str, seen: Sighting) -> Sighting:
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        self._young[any_id] = seen
        return seen


def _member(response: web.StreamResponse, name: str) -> str | None:
    body = response.body if isinstance(response, web.Response) else None
    if not isinstance(body, bytes):
        return None
    value = orjson.loads(body).get(name)
    return value if isinstance(value, str) else None
