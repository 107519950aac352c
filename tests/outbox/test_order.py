"""Which message goes next: fair turns, schedules, delays and places.

White-box: this is the arithmetic under the dispatcher, and no public door reaches a single step of them; the
length of a schedule's heap shows nowhere.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.outbox.delivery import DELAYS_SECONDS, MOST_HOSTS, KnownHosts, next_delay_ms
from bridge_server.outbox.fairness import Admission, FairOrder, Limits, Place
from bridge_server.outbox.models import UNREADABLE_DESTINATION, Claimant, OutgoingMessage, Queue
from bridge_server.outbox.queues import Schedule
from tests.outbox.running import HOOK
from tests.support.clock import PassTime
from tests.support.rows import each_row
from tests.support.waiting import eventually, turns

# Fair turns.


def taken(order: FairOrder[str], most: int) -> list[str]:
    """The next items."""
    return [item for _ in range(most) if (item := order.take()) is not None]


@each_row(
    ("depth", "greedy", "modest"),
    [(2, ("greedy",), ("modest", 1)), (3, ("client", "greedy"), ("client", "modest", 1)), (1, (), ("new",))],
    ids=["beside another client", "within a client", "behind thousands of clients"],
)
def test_a_modest_item_is_taken_soon(depth: int, greedy: tuple[Any, ...], modest: tuple[Any, ...]) -> None:
    order = FairOrder[str](depth)
    for number in range(4_000):
        order.add((*greedy, number), f"greedy {number}")
    taken(order, 100)
    order.add(modest, "modest")
    assert "modest" in taken(order, 2)


def test_clients_that_had_no_turn_go_first_and_the_first_is_served_while_others_keep_coming() -> None:
    order = FairOrder[str](1)
    order.add(("first",), "first")
    order.add(("again",), "again", had_a_turn=True)
    assert taken(order, 2) == ["first", "again"]

    order = FairOrder[str](1)
    for number in range(10):
        order.add((number,), f"old {number}")
    served = []
    for number in range(80):
        order.add((f"new {number}",), "new")
        served += taken(order, 1)
    assert {f"old {number}" for number in range(10)} <= set(served)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans())))
def test_every_waiting_item_is_taken_once(steps: list[tuple[int, int, bool, bool]]) -> None:
    order = FairOrder[tuple[int, int]](2)
    waiting: set[tuple[int, int]] = set()
    for first, second, had_a_turn, takes in steps:
        order.add((first, second), (first, second), had_a_turn=had_a_turn)
        waiting.add((first, second))
        if takes and (item := order.take()) is not None:
            waiting.remove(item)

    while (left := order.take()) is not None:
        waiting.remove(left)

    assert not waiting
    assert not order


def test_the_hosts_that_answered_last_are_known_among_many() -> None:
    hosts = KnownHosts()
    hosts.restore([("latest.test", 2), ("earliest.test", 1)])
    for number in range(MOST_HOSTS - 1):
        hosts.answered(f"{number}.test")

    assert [name in hosts for name in ("earliest.test", "latest.test")] == [False, True]


# When a queue is due.


def put(schedule: Schedule, *times: tuple[str, int]) -> None:
    """Queues at some host, each due at its time."""
    for name, due_ms in times:
        schedule.put(Claimant(Queue("http://host.test:80", name), None, has_failed=True), due_ms)


def due(schedule: Schedule, now_ms: int, limit: int = 1_000) -> list[str]:
    """The names of the queues that are taken."""
    return [claimant.queue.name for claimant in schedule.take_due(now_ms, limit)]


def test_the_earliest_queues_are_taken_and_a_full_schedule_turns_away_new_ones_alone() -> None:
    schedule = Schedule(most=3)
    put(schedule, ("c", 30), ("a", 20), ("b", 25), ("d", 5), ("b", 15))

    assert schedule.has_turned_away
    assert [due(schedule, 99, 2) for _ in range(2)] == [["b", "a"], ["c"]]
    assert len(schedule) == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20))), st.integers(0, 20))
def test_each_queue_is_due_once_at_its_earliest_time(puts: list[tuple[str, int]], now_ms: int) -> None:
    schedule = Schedule()
    put(schedule, *puts)
    assert sorted(due(schedule, now_ms)) == sorted({name for name, due_ms in puts if due_ms <= now_ms})


def test_times_that_earlier_ones_have_replaced_take_no_memory() -> None:
    schedule = Schedule()
    put(schedule, *((f"other {number}", 500_000) for number in range(100)))
    for now_ms in range(1_000):
        put(schedule, ("a", 1_000_000), ("a", now_ms))
        assert due(schedule, now_ms) == ["a"]
        assert len(schedule._heap) <= 300

    put(schedule, ("a", 400_000))
    assert due(schedule, 400_000) == ["a"]
    assert len(due(schedule, 500_000)) == 100


# Destinations of URLs.


def destination(url: str, lane: str | None = None) -> str:
    return OutgoingMessage("message-1", url, b"{}", HOOK, lane=lane).destination


def test_every_url_has_a_destination_in_one_spelling() -> None:
    destinations = {
        "https://example.com/hook?token=1": "https://example.com:443",
        "http://example.com": "http://example.com:80",
        "HTTPS://Example.COM:443/": "https://example.com:443",
        "https://example.com:8443/a": "https://example.com:8443",
        "https://example.com./": "https://example.com:443",
        "https://user:password@example.com/": "https://example.com:443",
        "https://bücher.example/": "https://xn--bcher-kva.example:443",
        "http://[2001:DB8::1]/": "http://[2001:db8::1]:80",
        "http://[2001:db8:0::1]:8080/": "http://[2001:db8::1]:8080",
        "http://192.0.2.1:9000/": "http://192.0.2.1:9000",
    }
    for channel in ("fcm:token", "push:", "webpush:{}", "log:"):
        destinations[channel] = channel.partition(":")[0]
    for url in ("", "hook", "//host/a", "http:///a", "http://[::1/", "http://host:99999/"):
        destinations[url] = UNREADABLE_DESTINATION

    assert {url: destination(url) for url in destinations} == destinations
    assert {destination(url, lane="one lane") for url in destinations} == {"one lane"}


@given(st.text(max_size=80) | st.text(max_size=80).map(lambda rest: f"http://{rest}"))
def test_a_destination_is_found_for_any_text(url: str) -> None:
    assert destination(url)


# Delays between attempts.

MIDDLE = 0.5


def test_the_delays_grow_make_up_about_a_day_and_end() -> None:
    delays_ms = [next_delay_ms(attempts, MIDDLE) for attempts in range(1, len(DELAYS_SECONDS) + 2)]

    assert delays_ms == [*(seconds * 1_000 for seconds in DELAYS_SECONDS), None]
    assert sorted(DELAYS_SECONDS) == list(DELAYS_SECONDS)
    assert DELAYS_SECONDS[0] == 5
    assert 23 * 3_600 < sum(DELAYS_SECONDS) < 25 * 3_600


@given(st.integers(1, len(DELAYS_SECONDS)), st.floats(0, 1, exclude_max=True), st.floats(5, 3_000))
def test_a_delay_is_spread_and_as_long_as_a_receiver_asks(attempts: int, chance: float, asked: float) -> None:
    usual_ms, granted_ms = next_delay_ms(attempts, chance), next_delay_ms(1, chance, asked)

    assert 0.8 <= (usual_ms or 0) / 1_000 / DELAYS_SECONDS[attempts - 1] <= 1.2
    assert (granted_ms or 0) >= int(asked * 1_000)


def test_a_receivers_wish_shortens_no_delay_and_lengthens_none_beyond_an_hour_or_the_end() -> None:
    wishes: dict[tuple[int, float], int | None] = {
        (6, 1): DELAYS_SECONDS[5] * 1_000,
        (1, 3_601.0): 3_600_000,
        (1, 86_400.0): 3_600_000,
        (1, 1e15): 3_600_000,
        (8, 86_400): 14_400_000,
        (len(DELAYS_SECONDS) + 1, 5): None,
    }

    assert {wish: next_delay_ms(wish[0], MIDDLE, asked_seconds=wish[1]) for wish in wishes} == wishes


# Admission: which queue gets a place, and which request is given up for it.

PATIENCE_SECONDS = 60.0
SMALL = Limits(
    known=2,
    strangers=4,
    retries=2,
    host=3,
    waiting=8,
    patience_seconds=PATIENCE_SECONDS,
    patience_in_crowd_seconds=PATIENCE_SECONDS,
    patience_with_known_seconds=PATIENCE_SECONDS,
)


def asks(
    host: str = "a.test", subject: str = "s", client: str | None = None, has_failed: bool = False
) -> Claimant:
    return Claimant(Queue(f"http://{host}:80", subject), client, has_failed)


class Office:
    """An admission, what it gave and to whom."""

    def __init__(self, limits: Limits = SMALL) -> None:
        self.places: list[Place] = []
        self.admission = Admission(limits, lambda _: False, self.places.append)

    @property
    def served(self) -> list[str]:
        """The subjects that were given places, in that order."""
        return [place.claimant.queue.name for place in self.places]

    def ask(self, *claimants: Claimant) -> None:
        for claimant in claimants:
            self.admission.ask(claimant)

    def fill(self) -> None:
        """Take all places for strangers."""
        self.ask(*(asks(f"{number}.test", f"filling {number}") for number in range(4)))
        assert len(self.places) == 4


async def given_up(places: list[Place], pass_time: PassTime, seconds: float = PATIENCE_SECONDS) -> list[str]:
    """The subjects of requests that are given up within this time, of one in each place, in that order."""
    ended: list[str] = []

    async def request(place: Place) -> None:
        try:
            async with asyncio.timeout(None) as place.limit:
                await asyncio.Event().wait()
        except TimeoutError:
            ended.append(place.claimant.queue.name)

    tasks = [asyncio.create_task(request(place)) for place in places]
    await asyncio.sleep(0)
    await pass_time(seconds)
    await turns()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return ended


async def test_a_channel_waits_for_no_place_and_a_full_waiting_list_has_room_for_a_new_client() -> None:
    office = Office()
    office.fill()
    office.ask(*[Claimant(Queue("fcm", ""), None, has_failed=True)] * 9)
    assert len(office.places) == 13
    office.admission.leave(office.places[-1])

    office.ask(*(asks(f"more {n}.test", f"much {n}", client="192.0.2.1") for n in range(20)))
    assert len(office.admission) == 8
    little = asks("other.test", "little", client="192.0.2.2")
    office.ask(little)
    assert len(office.admission) == 8

    for place in office.places[:2]:
        office.admission.leave(place)
    assert "little" in office.served[13:], "a returned place goes to the client that came last"


async def test_a_host_has_few_places_whatever_its_ports_and_the_others_are_for_other_hosts() -> None:
    office = Office()
    office.ask(*(Claimant(Queue(f"http://a.test:{port}", ""), None, has_failed=False) for port in range(5)))
    office.ask(asks("b.test", "other"))

    assert [place.claimant.host for place in office.places] == ["a.test"] * 3 + ["b.test"]
    office.admission.leave(office.places[0])
    assert [place.claimant.host for place in office.places[4:]] == ["a.test"]


async def test_a_queue_waits_once_and_overtakes_retries_once_it_has_a_new_message() -> None:
    office = Office()
    office.ask(*(asks(f"{number}.test", f"retry {number}", has_failed=True) for number in range(2)))
    office.ask(asks(subject="again", has_failed=True), asks(subject="again", has_failed=True))
    assert len(office.admission) == 1

    office.ask(asks(subject="again"))

    assert (office.served[2:], len(office.admission)) == (["again"], 0)
    for place in office.places[:2]:
        office.admission.leave(place)
    assert office.served[3:] == []


@pytest.mark.parametrize(
    ("holders", "newcomer", "ended"),
    [
        (
            [
                asks("1.test", "modest", client="192.0.2.1"),
                *(asks(f"{n}.test", f"greedy {n}", client="192.0.2.2") for n in range(2, 5)),
            ],
            asks("5.test", "other", client="192.0.2.3"),
            "greedy",
        ),
        (
            [asks("1.test", "modest"), *(asks(f"{n}.test", "greedy") for n in range(2, 5))],
            asks("5.test", "other"),
            "greedy",
        ),
        ([asks("a.test", f"full {number}") for number in range(3)], asks("a.test", "other"), "full"),
    ],
    ids=["of the client with most places", "of the subject with most among exempt clients", "at a full host"],
)
async def test_a_place_is_kept_and_a_slow_request_goes_on_unless_a_queue_waits(
    holders: list[Claimant], newcomer: Claimant, ended: str, pass_time: PassTime
) -> None:
    office = Office()
    office.ask(*holders)
    assert office.admission.renew(office.places[0])

    office.ask(newcomer)

    assert not office.admission.renew(office.places[0])
    (first,) = await given_up(office.places[: len(holders)], pass_time)
    assert first.startswith(ended)


async def test_a_retry_is_not_given_up_for_waiting_queues(pass_time: PassTime) -> None:
    office = Office()
    office.ask(*(asks(f"{n}.test", f"{n}", has_failed=True) for n in range(3)))

    assert len(office.places) == 2
    assert await given_up(office.places, pass_time, 2 * PATIENCE_SECONDS) == []


@pytest.mark.parametrize(("waiting", "ended"), [(900, 1), (1, 0)])
async def test_a_slow_request_is_given_up_sooner_in_a_crowd(
    waiting: int, ended: int, pass_time: PassTime
) -> None:
    office = Office(replace(SMALL, waiting=1_000, patience_in_crowd_seconds=PATIENCE_SECONDS / 10))
    office.fill()
    office.ask(*(asks(f"more {n}.test", f"{n}") for n in range(waiting)))

    first = await given_up(office.places[:4], pass_time, PATIENCE_SECONDS / 2)
    assert [name.split()[0] for name in first] == ["filling"] * ended


@each_row("limits", [SMALL, replace(SMALL, host=1)])
async def test_every_queue_is_served_in_the_end_and_leaves_nothing_in_memory(limits: Limits) -> None:
    office = Office(replace(limits, waiting=500, check_every_seconds=0.001))
    for n in range(300):
        office.ask(asks(f"{n % 7}.test", f"{n}", client=f"192.0.2.{n % 5}", has_failed=n % 3 == 0))

    async def all_served() -> bool:
        for place in office.places[len(left) :]:
            left.append(place)
            office.admission.leave(place)
        return len(office.places) == 300

    left: list[Place] = []
    await eventually(all_served)
    await all_served()

    assert sorted(office.served, key=int) == [str(number) for number in range(300)]
    assert office.admission._hosts == {}
    assert len(office.admission) == 0
    assert not office.admission._payers
