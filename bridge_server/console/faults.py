"""The page of test mode: rules for faults with their hits, the clock, and the reset."""

from typing import Any

from bridge_server.console.models import ROOT, Asked, ConsolePage, Done, PagePath, View, number_of
from bridge_server.console.rendering import duration_of
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339
from bridge_server.testmode import wire
from bridge_server.testmode.instruments import Faults, Where
from bridge_server.testmode.service import Controls
from bridge_server.testmode.wire import Routes, Words, counted_fields, read_faults

_FAULTS = "/faults"
_NUMBERS = ("status", "retry_after", "delay_ms", "after", "times")
_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}


class FaultsPage:
    """Views and changes of test mode. Rules may name `routes` and `words`."""

    def __init__(self, controls: Controls, faults: Faults, routes: Routes, words: Words) -> None:
        self._controls, self._faults = controls, faults
        self._routes, self._words = routes, words
        changes = {"add": self.add, "remove": self.remove, "reset": self.reset}
        changes |= {"advance": self.advance, "set-clock": self.set_clock}
        path = PagePath(_FAULTS, self.show, changes)
        self.page = ConsolePage("faults", "Faults and clock", "Server", (path,), self._count)

    async def show(self, _: Asked) -> View:
        """The rules and the clock."""
        reading = self._controls.reading()
        fields = {
            "faults_in_force": [(each.number, counted_fields(each)) for each in self._faults.rules],
            "places": [where.value for where in Where],
            "routes": sorted(self._routes),
            "units": list(_UNITS),
            "now": rfc3339(reading.now_ms),
            "is_frozen": reading.frozen,
        }
        return View("faults/faults.html", fields, ("faults",))

    async def add(self, asked: Asked) -> Done:
        self._faults.add(read_faults([_rule(asked)], self._routes, self._words))
        return _done("The rule is in force.")

    async def remove(self, asked: Asked) -> Done:
        number = number_of(asked.form.get("rule", ""))
        if number not in [each.number for each in self._faults.rules]:
            raise InvalidInputError("This rule is not in force any more.")
        self._faults.remove(number)
        return _done("The rule is removed.")

    async def advance(self, asked: Asked) -> Done:
        seconds = number_of(asked.form.get("number", "").strip())
        if isinstance(seconds, int | float):
            seconds *= _UNITS.get(asked.form.get("unit", ""), 1)
        moved = await self._controls.move(wire.read_clock({"advance": seconds}))
        passed = f"{duration_of(round(seconds * 1000))} have passed"
        return _done(f"{passed}: {moved.swept} rows are swept, {moved.delivered} messages are delivered.")

    async def set_clock(self, asked: Asked) -> Done:
        document = {"now": asked.form.get("now", "").strip(), "frozen": asked.form.get("frozen") == "on"}
        moved = await self._controls.move(wire.read_clock(document))
        return _done(f"It is {rfc3339(moved.now_ms)} now.")

    async def reset(self, _: Asked) -> Done:
        await self._controls.reset()
        return _done("The server is reset: its tables are empty, and its clock is the machine's.")

    async def _count(self) -> int:
        return len(self._faults.rules)


def _done(message: str) -> Done:
    return Done(f"{ROOT}{_FAULTS}", message)


def _rule(asked: Asked) -> dict[str, Any]:
    """The rule in the form as a test would write it: empty fields are left out."""
    texts = {name: asked.form.get(name, "").strip() for name in ("where", "route", "answer", *_NUMBERS)}
    given = {name: number_of(text) if name in _NUMBERS else text for name, text in texts.items() if text}
    return {**given, **({"drop": True} if asked.form.get("drop") == "on" else {})}
