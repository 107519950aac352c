"""The lifetime of a call as all processes on a database know it: each of its requests came to one of them."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from bridge_server.admin.handles import Handles
from bridge_server.admin.neighbours import OWN, Fields, Neighbours, Reply, listed_processes
from bridge_server.admin.traffic import wire
from bridge_server.admin.traffic.lifetime import CallLives
from bridge_server.kernel.rfc3339 import milliseconds_of
from bridge_server.relay.errors import CallNotFoundError
from bridge_server.web.traffic import TrafficLog

_CALLS = "/admin/traffic/calls"
_CLOCKS_DIFFER_MS = 100
"""The clocks of processes agree to some milliseconds only."""
_KNOWN_WITHOUT_A_REQUEST = frozenset({"asked", "answered"})


class LivesEverywhere:
    """The lifetimes of calls, of all processes together or of one. Without `neighbours` there is but one."""

    def __init__(
        self, lives: CallLives, traffic: TrafficLog | None, handles: Handles, neighbours: Neighbours | None
    ) -> None:
        self._lives = lives
        self._traffic = traffic
        self._handles = handles
        self._neighbours = neighbours

    async def of(self, call_id: str, process: str | int | None = None) -> Fields:
        """The lifetime of this call. Raises CallNotFoundError, NotFoundError, UnavailableError."""
        neighbours, handle = self._neighbours, self._handles.of(call_id)
        if neighbours is None or handle is None or process in (OWN, neighbours.own_number):
            return await self._own(call_id)
        if isinstance(process, int):
            return await neighbours.ask_one(process, f"{_CALLS}/{handle}", {})
        mine, replies = await asyncio.gather(
            self._own_if_known(call_id), neighbours.ask_all(f"{_CALLS}/{handle}", lambda _: {})
        )
        return merged_life(neighbours.own_number, mine, replies)

    async def _own(self, call_id: str) -> Fields:
        return wire.life_fields(await self._lives.of(call_id), self._traffic, self._handles)

    async def _own_if_known(self, call_id: str) -> Fields | None:
        try:
            return await self._own(call_id)
        except CallNotFoundError:
            return None


def merged_life(own_number: int, own: Fields | None, replies: Sequence[Reply]) -> Fields:
    """The lifetime with the steps that any process has recorded. Raises CallNotFoundError if none has any."""
    lives = {} if own is None else {own_number: own}
    lives |= {each.number: each.fields for each in replies if each.fields is not None}
    if not lives:
        raise CallNotFoundError
    first, recorded = next(iter(lives.values())), list(_recorded(lives))
    names = {step["step"] for step in recorded} & _KNOWN_WITHOUT_A_REQUEST
    steps = recorded + [
        step for step in first["steps"] if step["request"] is None and step["step"] not in names
    ]
    return {
        **first,
        "session": next((life["session"] for life in lives.values() if life["session"]), None),
        "steps": sorted(_of_its_time(steps), key=lambda step: (step["step"] != "asked", step["at"] or "")),
        "processes": listed_processes(own_number, replies),
    }


def _recorded(lives: Mapping[int, Fields]) -> Iterable[Fields]:
    for number, life in lives.items():
        for step in life["steps"]:
            if step["request"] is not None:
                yield {**step, "request": {**step["request"], "process": number}}


def _of_its_time(steps: Sequence[Fields]) -> list[Fields]:
    """Without requests about the whole session before the call was asked, or after it was answered.

    A process that has recorded neither cannot tell which these are.
    """
    asked = [milliseconds_of(step["at"]) for step in steps if step["step"] == "asked"]
    answered = [milliseconds_of(step["at"]) for step in steps if step["step"] == "answered"]

    def is_of_its_time(step: Fields) -> bool:
        if step["request"] is None or step["request"]["call"] is not None:
            return True
        moment_ms = milliseconds_of(step["at"])
        return not any(moment_ms < each - _CLOCKS_DIFFER_MS for each in asked) and not any(
            moment_ms > each + _CLOCKS_DIFFER_MS for each in answered
        )

    return [step for step in steps if is_of_its_time(step)]
