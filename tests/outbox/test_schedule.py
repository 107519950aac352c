from hypothesis import given
from hypothesis import strategies as st

from bridge_server.outbox.models import Claimant, Queue
from bridge_server.outbox.queues import Schedule

EVERY = 1_000


def of(name: str) -> Claimant:
    """A queue at some host."""
    return Claimant(Queue("http://host.test:80", name), None, has_failed=True)


def due(schedule: Schedule, now_ms: int, limit: int = EVERY) -> list[str]:
    """The names of the queues that are taken."""
    return [claimant.queue.name for claimant in schedule.take_due(now_ms, limit)]


def test_a_queue_is_due_from_its_time_on() -> None:
    schedule = Schedule()
    schedule.put(of("a"), 10)

    assert due(schedule, 9) == []
    assert due(schedule, 10) == ["a"]


def test_a_queue_that_was_taken_is_not_due_again() -> None:
    schedule = Schedule()
    schedule.put(of("a"), 10)

    due(schedule, 10)

    assert due(schedule, 99) == []


def test_an_earlier_time_wins_and_is_due_once() -> None:
    schedule = Schedule()
    for due_ms in (10, 5, 20):
        schedule.put(of("a"), due_ms)

    assert due(schedule, 5) == ["a"]
    assert due(schedule, 99) == []


def test_a_limited_take_returns_the_earliest_queues() -> None:
    schedule = Schedule()
    for due_ms, destination in ((3, "c"), (1, "a"), (2, "b")):
        schedule.put(of(destination), due_ms)

    assert due(schedule, 99, 2) == ["a", "b"]
    assert due(schedule, 99, 2) == ["c"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20))), st.integers(0, 20))
def test_each_queue_is_due_once_at_its_earliest_time(puts: list[tuple[str, int]], now_ms: int) -> None:
    schedule = Schedule()
    for destination, due_ms in puts:
        schedule.put(of(destination), due_ms)

    taken = due(schedule, now_ms)

    assert sorted(taken) == sorted({destination for destination, due_ms in puts if due_ms <= now_ms})


def test_a_full_schedule_turns_away_new_queues_and_keeps_known_ones() -> None:
    schedule = Schedule(most=2)
    for name, due_ms in (("a", 10), ("b", 20), ("c", 5), ("b", 15)):
        schedule.put(of(name), due_ms)

    assert schedule.has_turned_away
    assert due(schedule, 15) == ["a", "b"]
    assert len(schedule) == 0
