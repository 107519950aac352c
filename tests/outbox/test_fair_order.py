from hypothesis import given
from hypothesis import strategies as st

from bridge_server.outbox.fairness import FairOrder


def taken(order: FairOrder[str], most: int) -> list[str]:
    """The next items."""
    return [item for _ in range(most) if (item := order.take()) is not None]


def test_a_client_that_wants_little_is_served_beside_a_client_that_wants_much() -> None:
    order = FairOrder[str](2)
    for number in range(1_000):
        order.add(("greedy", number), f"greedy {number}")
    taken(order, 100)

    order.add(("modest", 1), "modest")

    assert "modest" in taken(order, 2)


def test_the_order_is_fair_within_a_client() -> None:
    order = FairOrder[str](3)
    for number in range(1_000):
        order.add(("client", "greedy", number), f"greedy {number}")
    taken(order, 100)

    order.add(("client", "modest", 1), "modest")

    assert "modest" in taken(order, 2)


def test_a_new_client_does_not_wait_behind_thousands_that_came_before() -> None:
    order = FairOrder[str](1)
    for number in range(4_000):
        order.add((number,), str(number))
    taken(order, 10)

    order.add(("new",), "new")

    assert "new" in taken(order, 2)


def test_the_first_client_is_served_while_others_keep_coming() -> None:
    order = FairOrder[str](1)
    for number in range(10):
        order.add((number,), f"old {number}")

    served = []
    for number in range(80):
        order.add((f"new {number}",), "new")
        served += taken(order, 1)

    assert {f"old {number}" for number in range(10)} <= set(served)


def test_a_client_that_had_a_turn_waits_for_clients_that_had_none() -> None:
    order = FairOrder[str](1)
    order.add(("first",), "first")
    order.add(("again",), "again", had_a_turn=True)

    assert taken(order, 2) == ["first", "again"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans())))
def test_every_waiting_item_is_taken_once(steps: list[tuple[int, int, bool, bool]]) -> None:
    order = FairOrder[tuple[int, int]](2)
    waiting: set[tuple[int, int]] = set()
    for first, second, had_a_turn, takes in steps:
        order.add((first, second), (first, second), had_a_turn=had_a_turn)
        waiting.add((first, second))
        if takes:
            item = order.take()
            assert item in waiting
            waiting.discard(item)

    while (left := order.take()) is not None:
        waiting.remove(left)

    assert not waiting
    assert not order
