from bridge_server.outbox.delivery import MOST_HOSTS, KnownHosts

DAY_MS = 86_400_000
NOW_MS = 30_000 * DAY_MS


def test_a_host_is_known_from_its_answer_to_its_next_failure() -> None:
    hosts = KnownHosts()
    assert "a.test" not in hosts

    hosts.answered("a.test")
    assert "a.test" in hosts

    hosts.failed("a.test")
    assert "a.test" not in hosts


def test_an_answering_host_is_written_once_a_day() -> None:
    hosts = KnownHosts()
    hosts.answered("a.test")

    assert hosts.to_write(["a.test", "a.test", "b.test"], NOW_MS) == ["a.test"]
    hosts.written(["a.test", "b.test"], NOW_MS)

    assert hosts.to_write(["a.test"], NOW_MS + DAY_MS) == []
    assert hosts.to_write(["a.test"], NOW_MS + DAY_MS + 1) == ["a.test"]


def test_a_failing_host_is_deleted_only_if_it_was_written() -> None:
    hosts = KnownHosts()
    hosts.answered("a.test")
    assert not hosts.failed("a.test")

    hosts.answered("a.test")
    hosts.written(["a.test"], NOW_MS)
    assert hosts.failed("a.test")
    assert not hosts.failed("a.test")


def test_the_hosts_that_answered_last_are_known_among_many() -> None:
    hosts = KnownHosts()
    hosts.restore([("latest.test", 2), ("earliest.test", 1)])

    for number in range(MOST_HOSTS - 1):
        hosts.answered(f"{number}.test")

    assert "earliest.test" not in hosts
    assert "latest.test" in hosts
