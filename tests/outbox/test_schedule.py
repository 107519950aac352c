from hypothesis import given
from hypothesis import strategies as st

from bridge_server.outbox.schedule import Schedule

EVERY = 1_000


def test_a_destination_is_due_from_its_time_on() -> None:
    schedule = Schedule()
    schedule.put("a", 10)

    assert schedule.take_due(9, EVERY) == []
    assert schedule.take_due(10, EVERY) == ["a"]


def test_what_was_taken_is_gone() -> None:
    schedule = Schedule()
    schedule.put("a", 10)

    schedule.take_due(10, EVERY)

    assert schedule.take_due(99, EVERY) == []


def test_an_earlier_time_wins_and_is_due_once() -> None:
    schedule = Schedule()
    for due_ms in (10, 5, 20):
        schedule.put("a", due_ms)

    assert schedule.take_due(5, EVERY) == ["a"]
    assert schedule.take_due(99, EVERY) == []


def test_no_more_are_taken_than_asked_for_and_the_earliest_first() -> None:
    schedule = Schedule()
    for due_ms, destination in ((3, "c"), (1, "a"), (2, "b")):
        schedule.put(destination, due_ms)

    assert schedule.take_due(99, 2) == ["a", "b"]
    assert schedule.take_due(99, 2) == ["c"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20))), st.integers(0, 20))
def test_each_destination_is_due_once_at_its_earliest_time(puts: list[tuple[str, int]], now_ms: int) -> None:
    schedule = Schedule()
    for destination, due_ms in puts:
        schedule.put(destination, due_ms)

    taken = schedule.take_due(now_ms, EVERY)

    assert sorted(taken) == sorted({destination for destination, due_ms in puts if due_ms <= now_ms})
