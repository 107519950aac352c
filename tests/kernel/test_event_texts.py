"""Events as texts: what is read is what was written, with the same types."""

from dataclasses import dataclass

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.events import DomainEvent, EventTexts, UnreadableEventError
from tests.support.rows import each_row


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
