"""Events, which listeners hear and drivers carry as texts, and signals, by which waiters miss no change."""

import asyncio
import pkgutil
from dataclasses import astuple, dataclass, fields, is_dataclass
from importlib import import_module
from typing import Any, get_type_hints

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

import bridge_server
from bridge_server.assembly.postgres import CARRIED, KEPT
from bridge_server.kernel.events import DomainEvent, Events, EventTexts, UnreadableEventError
from bridge_server.kernel.signals import Key, Signals, Touched
from tests.support.clock import PassTime
from tests.support.rows import each_row
from tests.support.waiting import turns


@dataclass(frozen=True, slots=True)
class Rang(DomainEvent):
    times: int


@dataclass(frozen=True, slots=True)
class Opened(DomainEvent):
    door: str


def event_types() -> list[type[DomainEvent]]:
    """Every type of event in the package."""
    names = [module.name for module in pkgutil.walk_packages(bridge_server.__path__, "bridge_server.")]
    modules = [import_module(name) for name in names if not name.endswith("__main__")]
    return [
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, DomainEvent) and found.__module__ == module.__name__
        if found is not DomainEvent
    ]


def test_listeners_hear_only_their_type_in_order_and_one_that_raises_is_logged_and_stops_no_other() -> None:
    events, heard = Events(), list[str]()

    def fail(_: Rang) -> None:
        raise ValueError("broken")

    events.subscribe(Rang, fail)
    events.subscribe(Rang, lambda event: heard.append(f"first {event.times}"))
    events.subscribe(Opened, lambda event: heard.append(event.door))
    events.subscribe(Rang, lambda event: heard.append(f"second {event.times}"))
    with capture_logs() as lines:
        events.publish(Rang(2))

    assert heard == ["first 2", "second 2"]
    assert [(line["event"], line["event_type"]) for line in lines] == [("listener_failed", "Rang")]


def test_an_event_of_another_process_reaches_listeners_everywhere() -> None:
    events, heard = Events(), list[str]()

    def fail(*_: object) -> None:
        raise ValueError("broken")

    events.subscribe(Rang, fail, everywhere=True)
    events.subscribe(Rang, lambda _: heard.append("here"))
    events.subscribe(Rang, lambda _: heard.append("everywhere"), everywhere=True)
    events.subscribe_elsewhere(Rang, lambda _: heard.append("elsewhere"))
    events.on_gap(fail)
    events.on_gap(lambda: heard.append("gap"))
    with capture_logs() as lines:
        events.hear(Rang(2))
        events.hear(Opened("front"))
        events.hear_everything()

    assert heard == ["everywhere", "elsewhere", "gap"]
    assert [line["event_type"] for line in lines] == ["Rang", "everything"]
    heard.clear()
    events.publish(Rang(2))
    assert heard == ["here", "everywhere"]


def test_event_types_have_names_of_their_own_and_each_is_carried_to_other_processes_or_is_not() -> None:
    names = [found.__name__ for found in event_types()]
    assert sorted(set(names)) == sorted(names)
    assert {"Delivered", "OutboxGrew", "SignedOut", "Touched"} <= set(names)
    assert len({*CARRIED, *KEPT}) == len(CARRIED) + len(KEPT)
    assert {*CARRIED, *KEPT} == set(event_types())


@each_row("event_type", event_types(), ids=lambda found: found.__name__)
def test_an_event_is_a_frozen_value_whose_fields_are_json(event_type: Any) -> None:
    of_types: dict[Any, object] = {
        str: "text", str | None: None, int: 7, bool: True, tuple[int, ...]: (1, 2), Key: ("session", "a")
    }  # fmt: skip
    hints = get_type_hints(event_type)
    event = event_type(*(of_types[hints[field.name]] for field in fields(event_type)))
    texts = EventTexts([event_type])
    back: Any = texts.read(orjson.loads(texts.write(event)))

    assert is_dataclass(event)
    assert (back, hash(back)) == (event, hash(event))


@dataclass(frozen=True, slots=True)
class Everything(DomainEvent):
    text: str
    perhaps: str | None
    number: int
    flag: bool
    numbers: tuple[int, ...]
    pair: tuple[str, str]
    nested: tuple[tuple[int, str], ...] = ()


TEXTS = EventTexts([Everything])
NUMBERS = st.integers(-(2**63), 2**63 - 1)


def types_of(value: object) -> object:
    return tuple(map(types_of, value)) if isinstance(value, tuple) else type(value)


@given(
    st.builds(
        Everything,
        st.text(),
        st.none() | st.text(),
        NUMBERS,
        st.booleans(),
        st.lists(NUMBERS).map(tuple),
        st.tuples(st.text(), st.text()),
        st.lists(st.tuples(NUMBERS, st.text())).map(tuple),
    )
)
def test_an_event_comes_back_with_its_values_and_their_types(event: Everything) -> None:
    back = TEXTS.read(orjson.loads(TEXTS.write(event)))
    assert back == event
    assert isinstance(back, Everything)
    assert types_of(astuple(back)) == types_of(astuple(event))


def test_an_event_with_other_fields_is_refused() -> None:
    with pytest.raises(UnreadableEventError):
        TEXTS.read(["Everything", "a", "b"])


KEY: Key = ("session", "a")
OTHER: Key = ("session", "b")


class Cell:
    """A value to wait for, which counts its reads and can hold them up."""

    def __init__(self) -> None:
        self.value: str | None = None
        self.reads = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def read(self) -> str | None:
        value = self.value
        self.reads += 1
        await self.gate.wait()
        return value


@pytest.fixture
def signals() -> Signals:
    return Signals()


@pytest.fixture
def cell() -> Cell:
    return Cell()


async def waiting(
    signals: Signals, *cells: Cell, key: Key = KEY, seconds: float = 60.0
) -> list["asyncio.Task[str | None]"]:
    """A waiter for each of these cells."""
    waiters = [asyncio.create_task(signals.wait_for(key, cell.read, seconds)) for cell in cells]
    await turns(5)
    return waiters


async def test_every_waiter_of_a_key_wakes_at_one_touch(signals: Signals, cell: Cell) -> None:
    waiters = await waiting(signals, *[cell] * 200)
    assert signals.waiting == 200
    cell.value = "new"
    signals.touch(KEY)
    assert await asyncio.gather(*waiters) == ["new"] * 200
    assert signals.waiting == 0


async def test_a_change_between_the_read_and_the_sleep_is_not_lost(signals: Signals, cell: Cell) -> None:
    cell.gate.clear()
    (waiter,) = await waiting(signals, cell)
    assert cell.reads == 1
    cell.value = "new"
    signals.touch(KEY)
    cell.gate.set()
    assert await waiter == "new"


async def test_a_wait_ends_in_time_whatever_came(signals: Signals, cell: Cell, pass_time: PassTime) -> None:
    (waiter,) = await waiting(signals, cell, seconds=10.0)
    for _ in range(9):
        await pass_time(1.0)
        signals.touch(KEY)
        signals.touch(OTHER)
        await turns(5)
    await pass_time(0.9)
    assert not waiter.done()
    await pass_time(0.2)
    await turns(5)

    assert waiter.done()
    assert await waiter is None
    assert cell.reads == 10
    assert not signals.has_waiters


async def test_closing_wakes_every_waiter_even_while_it_reads(signals: Signals, cell: Cell) -> None:
    waiters = [waiter for key in (KEY, OTHER) for waiter in await waiting(signals, Cell(), key=key)]
    cell.gate.clear()
    waiters += await waiting(signals, cell)
    signals.close()
    cell.gate.set()
    assert await asyncio.gather(*waiters) == [None] * 3
    assert signals.waiting == 0


@pytest.mark.parametrize("of_another_process", [False, True])
async def test_a_change_wakes_waiters(signals: Signals, cell: Cell, of_another_process: bool) -> None:
    events, other = Events(), Cell()
    signals.subscribe_to(events)
    (waiter,) = await waiting(signals, cell)
    (other_waiter,) = await waiting(signals, other, key=OTHER)
    cell.value = "new"
    (events.hear if of_another_process else events.publish)(Touched(KEY))
    assert await waiter == "new"
    assert (cell.reads, other.reads) == (2, 1)

    other.value = "found"
    events.hear_everything()
    assert await other_waiter == "found"
