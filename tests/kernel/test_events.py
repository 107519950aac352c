"""Events: who hears them, and their texts, as which a driver carries every type."""

import pkgutil
from dataclasses import dataclass, fields, is_dataclass
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
from bridge_server.kernel.signals import Key
from tests.support.rows import each_row

_EXAMPLES: dict[Any, object] = {
    str: "text",
    str | None: None,
    int: 7,
    bool: True,
    tuple[int, ...]: (1, 2),
    Key: ("session", "a"),
}
"""The types that a field may have, with a value of each."""


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


def test_listeners_hear_only_their_type_in_the_order_of_their_subscriptions() -> None:
    events, heard = Events(), list[str]()
    events.subscribe(Rang, lambda event: heard.append(f"first {event.times}"))
    events.subscribe(Opened, lambda event: heard.append(event.door))
    events.subscribe(Rang, lambda event: heard.append(f"second {event.times}"))

    events.publish(Rang(2))

    assert heard == ["first 2", "second 2"]


def test_an_event_without_listeners_is_dropped() -> None:
    Events().publish(Rang(2))


def test_a_listener_that_raises_is_logged_and_stops_no_other() -> None:
    events, heard = Events(), list[int]()

    def fail(_: Rang) -> None:
        raise ValueError("broken")

    events.subscribe(Rang, fail)
    events.subscribe(Rang, lambda event: heard.append(event.times))

    with capture_logs() as lines:
        events.publish(Rang(2))

    assert heard == [2]
    assert [(line["event"], line["event_type"]) for line in lines] == [("listener_failed", "Rang")]


def test_an_event_of_another_process_reaches_listeners_everywhere() -> None:
    events, heard = Events(), list[str]()
    events.subscribe(Rang, lambda _: heard.append("here"))
    events.subscribe(Rang, lambda _: heard.append("everywhere"), everywhere=True)
    events.subscribe_elsewhere(Rang, lambda _: heard.append("elsewhere"))

    events.hear(Rang(2))
    events.hear(Opened("front"))
    assert heard == ["everywhere", "elsewhere"]

    heard.clear()
    events.publish(Rang(2))
    assert heard == ["here", "everywhere"]


def test_after_a_gap_listeners_look_for_themselves() -> None:
    events, heard = Events(), list[str]()
    events.subscribe(Rang, lambda _: heard.append("rang"), everywhere=True)
    events.on_gap(lambda: heard.append("first"))
    events.on_gap(lambda: heard.append("second"))

    events.hear_everything()

    assert heard == ["first", "second"]


def test_a_listener_that_raises_at_what_it_hears_stops_no_other() -> None:
    events, heard = Events(), list[str]()

    def fail(*_: object) -> None:
        raise ValueError("broken")

    events.subscribe(Rang, fail, everywhere=True)
    events.subscribe(Rang, lambda _: heard.append("rang"), everywhere=True)
    events.on_gap(fail)
    events.on_gap(lambda: heard.append("gap"))

    with capture_logs() as lines:
        events.hear(Rang(2))
        events.hear_everything()

    assert heard == ["rang", "gap"]
    assert [line["event_type"] for line in lines] == ["Rang", "everything"]


def test_event_types_have_names_of_their_own() -> None:
    names = [found.__name__ for found in event_types()]

    assert sorted(set(names)) == sorted(names)
    assert {"Delivered", "OutboxGrew", "SignedOut", "Touched"} <= set(names)


def test_each_type_of_event_is_carried_to_other_processes_or_is_not() -> None:
    assert len({*CARRIED, *KEPT}) == len(CARRIED) + len(KEPT)
    assert {*CARRIED, *KEPT} == set(event_types())


@each_row("event_type", event_types(), ids=lambda found: found.__name__)
def test_an_event_is_a_frozen_value_whose_fields_are_json(event_type: Any) -> None:
    hints = get_type_hints(event_type)
    event = event_type(*(_EXAMPLES[hints[field.name]] for field in fields(event_type)))

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


@dataclass(frozen=True, slots=True)
class Nothing(DomainEvent):
    pass


@dataclass(frozen=True, slots=True)
class Kept(DomainEvent):
    text: str


TEXTS = EventTexts([Everything, Nothing])
NUMBERS = st.integers(-(2**63), 2**63 - 1)
ANY = st.builds(
    Everything,
    st.text(),
    st.none() | st.text(),
    NUMBERS,
    st.booleans(),
    st.lists(NUMBERS).map(tuple),
    st.tuples(st.text(), st.text()),
    st.lists(st.tuples(NUMBERS, st.text())).map(tuple),
)


def types_of(value: object) -> object:
    return tuple(map(types_of, value)) if isinstance(value, tuple) else type(value)


@given(ANY)
def test_an_event_comes_back_with_its_values_and_their_types(event: Everything) -> None:
    back = TEXTS.read(orjson.loads(TEXTS.write(event)))

    assert back == event
    assert isinstance(back, Everything)
    for name in ("text", "perhaps", "number", "flag", "numbers", "pair", "nested"):
        assert types_of(getattr(back, name)) == types_of(getattr(event, name))


def test_an_event_without_fields_comes_back() -> None:
    assert TEXTS.write(Nothing()) == b'["Nothing"]'
    assert TEXTS.read(["Nothing"]) == Nothing()


def test_only_events_of_the_types_that_were_named_are_carried() -> None:
    assert TEXTS.carries(Nothing())
    assert not TEXTS.carries(Kept("a"))
    assert TEXTS.read(["Kept", "a"]) is None


@each_row("array", [["Nothing", 1], ["Everything"], ["Everything", "a", "b"]])
def test_an_event_with_other_fields_is_refused(array: list[object]) -> None:
    with pytest.raises(UnreadableEventError):
        TEXTS.read(array)


def test_a_text_that_is_no_unicode_cannot_be_written() -> None:
    with pytest.raises(TypeError):
        TEXTS.write(Everything("\ud800", None, 1, False, (), ("a", "b")))
