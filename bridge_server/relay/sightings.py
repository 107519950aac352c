"""The times at which each side of a session was last seen, and its dapp's own name: in memory alone.

A session is known by its own id and by the ids of its calls. When many are known, ids that were not seen for
the longest time are forgotten.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import orjson
from aiohttp import web

from bridge_server.kernel.clock import Clock
from bridge_server.relay.dialect import Dialect

MOST_YOUNG = 20_000
"""The ids that were seen last; at most so many older ids are known besides."""

DAPP_NAME = web.RequestKey("dapp_name", str)
"""The dapp's own name, in a request that asks for a call."""


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
        self._watchers: dict[tuple[str, str], Callable[[Sequence[str], int], None]] = {}
        self.before_reading: Callable[[], None] = lambda: None
        """Notes the requests that were put off."""

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def of(self, any_id: str) -> Sighting | None:
        """The session of this id, or of the call of this id."""
        self.before_reading()
        return self._young.get(any_id) or self._old.get(any_id)

    def ago_ms(self, seen_at_us: int) -> int:
        """The time since then."""
        return max(0, self._clock.elapsed_us() - seen_at_us) // 1_000

    def clear(self) -> None:
        """Forget every session."""
        self.before_reading()
        self._young = {}
        self._old = {}

    def watcher(
        self, dialect: Dialect, side: Literal["dapp", "wallet"]
    ) -> Callable[[Sequence[str], int], None]:
        """A function to call with the ids of sessions or calls that this side has asked for, and the elapsed
        time. All routes of a side share it.
        """
        return self._watchers.setdefault(
            (dialect.route_prefix, side), self._watching(dialect, side == "dapp")
        )

    def see_opened(self, dialect: Dialect) -> Callable[[web.Request, bytes], None]:
        """A function to call with each request that has opened a session, and its answer."""

        def see(_: web.Request, answer: bytes) -> None:
            session_id = orjson.loads(answer).get("sessionId")
            if isinstance(session_id, str):
                self._remember(session_id, dialect.route_prefix).dapp_at_us = self._clock.elapsed_us()

        return see

    def see_asked(self, request: web.Request, answer: bytes) -> None:
        """Note a new call: its id leads to the session, and the request names the dapp."""
        seen, call_id = self.of(request.match_info["session_id"]), orjson.loads(answer).get("callId")
        if seen is None or not isinstance(call_id, str):
            return
        self._add(call_id, seen)
        if seen.dapp_name is None:
            seen.dapp_name = request.get(DAPP_NAME)

    def _watching(self, dialect: Dialect, is_dapp: bool) -> Callable[[Sequence[str], int], None]:
        kind = dialect.route_prefix

        def see(ids: Sequence[str], at_us: int) -> None:
            for any_id in ids:
                seen = self._young.get(any_id) or self._remember(any_id, kind)
                if is_dapp:
                    seen.dapp_at_us = at_us
                else:
                    seen.wallet_at_us = at_us

        return see

    def _remember(self, any_id: str, dialect: str) -> Sighting:
        return self._add(any_id, self._old.get(any_id) or Sighting(dialect))

    def _add(self, any_id: str, seen: Sighting) -> Sighting:
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        self._young[any_id] = seen
        return seen
