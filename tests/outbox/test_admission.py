"""Admission: which queue gets a place, and which request is given up for it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from bridge_server.outbox.fairness import Admission, Limits, Place
from bridge_server.outbox.models import Claimant, Queue
from tests.support.eventually import eventually, turns
from tests.support.loop_time import PassTime
from tests.support.rows import each_row

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

    def __init__(self, limits: Limits = SMALL, is_known: Callable[[str], bool] = lambda _: False) -> None:
        self.places: list[Place] = []
        self.admission = Admission(limits, is_known, self.places.append)

    @property
    def served(self) -> list[str]:
        """The subjects that were given places, in that order."""
        return [place.claimant.queue.name for place in self.places]

    def ask(self, *claimants: Claimant) -> None:
        for claimant in claimants:
            self.admission.ask(claimant)

    def fill(self, hosts: int = 4) -> None:
        """Take all places for strangers."""
        self.ask(*(asks(f"{number}.test", f"filling {number}") for number in range(hosts)))
        assert len(self.places) == hosts


async def request(place: Place, ended: list[str]) -> None:
    """A request that is never answered; adds its subject to the list when it is given up."""
    try:
        async with asyncio.timeout(None) as place.limit:
            await asyncio.Event().wait()
    except TimeoutError:
        ended.append(place.claimant.queue.name)


async def given_up(places: list[Place], pass_time: PassTime, seconds: float = PATIENCE_SECONDS) -> list[str]:
    """Whose requests are given up within this time, of one in each place, in that order."""
    ended: list[str] = []
    tasks = [asyncio.create_task(request(place, ended)) for place in places]
    await asyncio.sleep(0)
    await pass_time(seconds)
    await turns()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return ended


async def test_strangers_retries_and_known_hosts_have_places_of_their_own() -> None:
    office = Office(is_known=lambda host: host.startswith("known"))
    for number in range(6):
        office.ask(
            asks(f"{number}.test", f"stranger {number}"),
            asks(f"{number}.test", f"retry {number}", has_failed=True),
            asks(f"known-{number}.test", f"known {number}"),
        )

    kinds = [name.split()[0] for name in office.served]

    assert {kind: kinds.count(kind) for kind in kinds} == {"stranger": 4, "retry": 2, "known": 2}
    assert len(office.admission) == 10 - 2  # two more than may wait have been turned away
    assert office.admission.has_turned_away


async def test_a_channel_gets_a_place_without_waiting() -> None:
    office = Office()
    office.fill()

    for _ in range(9):
        office.ask(Claimant(Queue("fcm", ""), None, has_failed=True))

    assert len(office.places) == 13
    office.admission.leave(office.places[-1])


async def test_a_host_has_few_places_whatever_its_ports_and_the_others_are_for_other_hosts() -> None:
    office = Office()
    for port in range(5):
        office.ask(Claimant(Queue(f"http://a.test:{port}", ""), None, has_failed=False))

    office.ask(asks("b.test", "other"))

    assert [place.claimant.host for place in office.places] == ["a.test"] * 3 + ["b.test"]
    office.admission.leave(office.places[0])
    assert [place.claimant.host for place in office.places[4:]] == ["a.test"]


async def test_a_returned_place_goes_to_the_client_that_came_last() -> None:
    office = Office()
    office.fill()
    for number in range(6):
        office.ask(asks("x.test", f"much {number}", client="192.0.2.1"))
    office.ask(asks("y.test", "little", client="192.0.2.2"))

    for place in office.places[:2]:
        office.admission.leave(place)

    assert "little" in office.served[4:]


async def test_a_queue_waits_once_and_overtakes_retries_once_it_has_a_new_message() -> None:
    office = Office()
    office.ask(*(asks(f"{number}.test", f"retry {number}", has_failed=True) for number in range(2)))
    office.ask(asks(subject="again", has_failed=True), asks(subject="again", has_failed=True))
    assert len(office.admission) == 1

    office.ask(asks(subject="again"))

    assert office.served[2:] == ["again"]
    assert len(office.admission) == 0
    for place in office.places[:2]:
        office.admission.leave(place)
    assert office.served[3:] == []


async def test_a_place_may_be_kept_unless_a_queue_waits_for_it() -> None:
    office = Office()
    office.fill()
    assert office.admission.renew(office.places[0])

    office.ask(asks("other.test", "other"))

    assert not office.admission.renew(office.places[0])


async def test_a_place_at_a_host_may_be_kept_unless_a_queue_waits_for_the_host() -> None:
    office = Office()
    office.ask(*(asks("a.test", f"{number}") for number in range(3)))
    assert office.admission.renew(office.places[0])

    office.ask(asks("a.test", "other"))

    assert not office.admission.renew(office.places[0])


async def test_a_slow_request_is_not_given_up_while_no_queue_waits(pass_time: PassTime) -> None:
    office = Office()
    office.fill()

    assert await given_up(office.places, pass_time, 2 * PATIENCE_SECONDS) == []


async def test_a_slow_request_of_the_client_with_most_places_is_given_up_for_a_waiting_queue(
    pass_time: PassTime,
) -> None:
    office = Office()
    office.ask(asks("1.test", "modest", client="192.0.2.1"))
    office.ask(*(asks(f"{n}.test", f"greedy {n}", client="192.0.2.2") for n in range(2, 5)))

    office.ask(asks("5.test", "other", client="192.0.2.3"))

    (first,) = await given_up(office.places[:4], pass_time)
    assert first.startswith("greedy")


async def test_a_slow_request_of_the_subject_with_most_places_is_given_up_among_exempt_clients(
    pass_time: PassTime,
) -> None:
    office = Office()
    office.ask(asks("1.test", "modest"), *(asks(f"{n}.test", "greedy") for n in range(2, 5)))

    office.ask(asks("5.test", "other"))

    assert await given_up(office.places[:4], pass_time) == ["greedy"]


async def test_a_slow_request_at_a_full_host_is_given_up_for_a_waiting_queue(pass_time: PassTime) -> None:
    office = Office()
    office.ask(*(asks("a.test", f"{number}") for number in range(3)))

    office.ask(asks("a.test", "other"))

    (first,) = await given_up(office.places[:3], pass_time)
    assert first in "012"


async def test_a_retry_is_not_given_up_for_waiting_queues(pass_time: PassTime) -> None:
    office = Office()
    office.ask(*(asks(f"{n}.test", f"{n}", has_failed=True) for n in range(3)))

    assert len(office.places) == 2
    assert await given_up(office.places, pass_time, 2 * PATIENCE_SECONDS) == []


@pytest.mark.parametrize(("waiting", "ended"), [(900, 1), (1, 0)])
async def test_a_slow_request_is_given_up_sooner_the_more_queues_wait(
    waiting: int, ended: int, pass_time: PassTime
) -> None:
    office = Office(replace(SMALL, waiting=1_000, patience_in_crowd_seconds=PATIENCE_SECONDS / 10))
    office.fill()

    office.ask(*(asks(f"more {n}.test", f"{n}") for n in range(waiting)))

    first = await given_up(office.places[:4], pass_time, PATIENCE_SECONDS / 2)
    assert [name.split()[0] for name in first] == ["filling"] * ended


async def test_a_full_waiting_list_turns_away_clients_that_wait_already() -> None:
    office = Office()
    office.fill()
    for number in range(20):
        office.ask(asks(f"more {number}.test", f"much {number}", client="192.0.2.1"))
    assert len(office.admission) == 8

    office.ask(asks("other.test", "little", client="192.0.2.2"))

    assert len(office.admission) == 8
    assert office.admission.is_waiting(asks("other.test", "little").queue)


@each_row("limits", [SMALL, replace(SMALL, host=1)])
async def test_every_queue_is_served_in_the_end_and_leaves_nothing_in_memory(limits: Limits) -> None:
    office = Office(replace(limits, waiting=500, check_every_seconds=0.001))
    everybody = [
        asks(f"{number % 7}.test", f"{number}", client=f"192.0.2.{number % 5}", has_failed=number % 3 == 0)
        for number in range(300)
    ]
    office.ask(*everybody)

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


async def test_a_closed_admission_serves_no_queue() -> None:
    office = Office()
    office.fill()
    office.ask(asks("other.test", "other"))

    office.admission.close()
    office.ask(asks("late.test", "late"))
    for place in office.places[:4]:
        office.admission.leave(place)

    assert len(office.places) == 4
    assert not office.admission.renew(office.places[0])
