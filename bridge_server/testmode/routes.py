"""The control routes. No path of a project is among them: its id has no underscore."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339
from bridge_server.testmode import wire
from bridge_server.testmode.instruments import Instruments
from bridge_server.testmode.service import Controls
from bridge_server.web.bodies import json_object, parse_value, require_json
from bridge_server.web.routes import About, Access, Parameter, Route
from bridge_server.web.shapes import Work, answering, returned

PREFIX = "/_test"
"""The path of every control route begins with this."""

_BODY_LIMIT_BYTES = 64 * 1024
_MOST_VALUES = 4_096


class TestModeHandlers:
    """One method per endpoint. `routes` are the names that a rule may have, and `words` its answers, by
    place. Bodies need no Content-Type: no web page may call these routes, and curl names a wrong one.
    """

    __test__ = False

    def __init__(
        self, controls: Controls, instruments: Instruments, routes: wire.Routes, words: wire.Words
    ) -> None:
        self._controls = controls
        self._instruments = instruments
        self._routes = routes
        self._words = words

    async def reset(self, _: web.Request) -> wire.ResetServerAnswer:
        """Empties every table and all that is kept in memory, ends what waits, and sets the clock right."""
        return {"now": rfc3339((await self._controls.reset()).now_ms)}

    async def clock(self, _: web.Request) -> wire.TestClockAnswer:
        """The time that the server goes by, and whether it is frozen."""
        return wire.clock_fields(self._controls.reading())

    async def move_clock(self, request: web.Request) -> wire.TestClockAnswer:
        """Lets seconds pass, or sets the clock. Answers once what became due has been processed."""
        move = wire.read_clock((await json_object(request, is_labelled=False)).values)
        return wire.clock_fields(await self._controls.move(move))

    async def faults(self, _: web.Request) -> wire.OrderedFaultsAnswer:
        """The rules in force, with their hits."""
        return {"faults": list(map(wire.counted_fields, self._instruments.faults.rules))}

    async def replace_faults(self, request: web.Request) -> wire.OrderedFaultsAnswer:
        """Replaces all rules. The first that applies to an attempt strikes it. A rule that cannot be read is
        a 400 that points at it, and changes nothing.
        """
        require_json(request, is_labelled=False)
        document = parse_value(await request.read(), "The body", _MOST_VALUES)
        self._instruments.faults.replace(wire.read_faults(document, self._routes, self._words))
        return await self.faults(request)

    async def sent(self, request: web.Request) -> wire.SentMessagesAnswer:
        """The last 2,000 attempts to deliver, oldest first."""
        query, channel = request.query, request.query.get("channel")
        if channel is not None and channel not in wire.CHANNELS:
            raise InvalidInputError(f"There is no channel {channel!r}, only {', '.join(wire.CHANNELS)}.")
        named = (channel, query.get("topic"), query.get("account"))
        found = await self._instruments.sent.matching(*named, wire.read_wait(query))
        return {"sent": list(map(wire.sent_fields, found))}

    async def forget_sent(self, _: web.Request) -> wire.ForgottenMessagesAnswer:
        """Empties the list of attempts."""
        return {"deleted": self._instruments.sent.clear()}

    async def traffic(self, request: web.Request) -> wire.TestTrafficAnswer:
        """The last 2,000 requests with their contents, oldest first."""
        after, traffic = wire.read_after(request.query), self._instruments.traffic
        requests = await traffic.after(after, wire.read_wait(request.query))
        return {"requests": list(map(wire.request_fields, requests)), "last": traffic.last_number}


_WAIT = Parameter(
    "wait", "Waits up to so many seconds for one.", {"type": "number", "minimum": 0, "maximum": 300}
)
_CHANNEL = Parameter("channel", "Only of this channel.", {"enum": [*wire.CHANNELS]})
_TOPIC = Parameter("topic", "Only about this topic or session.")
_ACCOUNT = Parameter("account", "Only for this account, or its address.")
_AFTER = Parameter("after", "Only requests after the one of this number.", {"type": "integer", "minimum": 0})
_MEMORY: Mapping[str, Any] = {"needs_database": False}


def testmode_routes(handlers: TestModeHandlers, access: Access) -> tuple[Route, ...]:
    """Every control route."""

    def row(method: str, path: str, name: str, work: Work, summary: str, meaning: str, **about: Any) -> Route:
        return Route(
            method=method, path=f"{PREFIX}/{path}", name=name, handler=answering(work), access=access,
            body_limit_bytes=_BODY_LIMIT_BYTES if "body" in about else 0, who="test",
            waits=_WAIT in about.get("parameters", ()) or name == "test-move-clock",
            about=About(work=work, tag="Test mode", summary=summary, answers=returned(work, meaning),
                        **about),
        )  # fmt: skip

    return (
        row("POST", "reset", "test-reset", handlers.reset, "Reset the server", "It is as new."),
        row("GET", "clock", "test-clock", handlers.clock, "Read the clock", "The clock.", **_MEMORY),
        row("PUT", "clock", "test-move-clock", handlers.move_clock, "Move the clock", "The clock.",
            body=wire.ClockMoveShape, body_example={"advance": 60}),
        row("GET", "faults", "test-faults", handlers.faults, "List faults", "The rules.", **_MEMORY),
        row("PUT", "faults", "test-replace-faults", handlers.replace_faults, "Order faults", "The rules.",
            body=list[wire.FaultShape], body_example=[{"where": "webhook", "status": 503, "times": 2}],
            **_MEMORY),
        row("GET", "sent", "test-sent", handlers.sent, "List what was sent", "The attempts.",
            parameters=(_CHANNEL, _TOPIC, _ACCOUNT, _WAIT), **_MEMORY),
        row("DELETE", "sent", "test-forget-sent", handlers.forget_sent, "Forget what was sent",
            "How many there were.", **_MEMORY),
        row("GET", "traffic", "test-traffic", handlers.traffic, "List requests", "The requests.",
            parameters=(_AFTER, _WAIT), **_MEMORY),
    )  # fmt: skip
