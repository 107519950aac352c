"""Topics of generation 2.x: listed with their sockets and the messages that wait on them."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge_server.admin.other_processes import Reply
from bridge_server.admin.topics import kinds_of, merged_topics
from tests.admin.observed import Observed, observing
from tests.support.irn_client import Identity, irn_connected
from tests.support.rows import each_row

THIRTY_DAYS = "2027-02-14T08:00:00.000Z"


def _topic(name: str) -> str:
    """Topics that differ in their first characters, as those of clients do."""
    return hashlib.sha256(name.encode()).hexdigest()


@pytest.fixture
async def observed(tmp_path: Path) -> AsyncIterator[Observed]:
    async with observing(tmp_path / "data") as running:
        yield running


async def test_a_topic_is_listed_with_its_sockets_and_waiting_messages(observed: Observed) -> None:
    server, topic = observed.bridge.server, _topic("pairing")
    wallet = Identity()
    async with irn_connected(server.client, server.url, wallet) as away:
        await away.subscribe(topic)
    async with irn_connected(server.client, server.url, Identity()) as dapp:
        await dapp.subscribe(topic)
        await dapp.publish(topic, "a proposal", tag=1100)

        answer = await observed.admin.get("/admin/topics")
        (listed,) = answer.json["topics"]

        assert topic not in answer.body.decode()
        assert listed == {
            "topic": f"{topic[:8]}…",
            "kind": "pairing",
            "subscribers": 2,
            "sockets": 1,
            "messages_waiting": 1,
            "bytes_waiting": listed["bytes_waiting"],
            "expires_at": listed["expires_at"],
        }
        assert listed["bytes_waiting"] > len("a proposal")
    async with irn_connected(server.client, server.url, wallet) as back:
        await back.message()
        await back.settled()
        (listed,) = (await observed.admin.get("/admin/topics")).json["topics"]

    assert (listed["sockets"], listed["messages_waiting"]) == (1, 0)


async def test_pages_have_every_topic_once_also_of_one_moment(observed: Observed) -> None:
    server, topics = observed.bridge.server, [_topic(f"topic {number}") for number in range(5)]
    async with irn_connected(server.client, server.url, Identity()) as client:
        await client.ask("irn_batchSubscribe", {"topics": topics[1:]})
        observed.bridge.clock.advance(1)
        await client.subscribe(topics[0])

        shown: list[list[str]] = []
        after: str | None = ""
        while after is not None:
            page = (await observed.admin.get(f"/admin/topics?limit=2&after={after}")).json
            shown.append([each["topic"] for each in page["topics"]])
            after = page["next"]

    assert [len(page) for page in shown] == [2, 2, 1]
    assert shown[0][0] == f"{topics[0][:8]}…"
    assert sorted(topic for page in shown for topic in page) == sorted(f"{each[:8]}…" for each in topics)


async def test_a_place_that_is_none_is_refused(observed: Observed) -> None:
    answer = await observed.admin.get("/admin/topics?after=elsewhere")

    assert answer.status == 400


@each_row(
    ("summaries", "kind"),
    [
        (["irn_publish, tag 1108, 412 B to topic 9f2c6a01…: delivered"], "session"),
        (["wc_proposeSession, tag 1100, 880 B to topic 9f2c6a01…: waiting"], "pairing"),
        (
            ["tag 1101, 1 B to topic 9f2c6a01…: waiting", "tag 1108, 1 B to topic 9f2c6a01…: waiting"],
            "pairing",
        ),
        (["tag 4001, 1 B to topic 9f2c6a01…: waiting", "irn_subscribe, topic 9f2c6a01…"], None),
    ],
)
def test_the_kind_is_that_of_the_newest_known_tag(summaries: list[str], kind: str | None) -> None:
    assert kinds_of(summaries).get("9f2c6a01…") == kind


def test_sockets_of_all_processes_are_added() -> None:
    def listed(topic: str, kind: str | None, sockets: int) -> dict[str, object]:
        return {"topic": topic, "kind": kind, "sockets": sockets, "expires_at": THIRTY_DAYS}

    own = {"topics": [listed("a", None, 1)], "next": None}
    other = Reply(2, "http://b", {"topics": [listed("a", "session", 2), listed("b", None, 9)]})

    merged = merged_topics(1, own, [other, Reply(3, "http://c", None, "is away")])

    assert merged["topics"] == [listed("a", "session", 3)]
    assert [each["number"] for each in merged["processes"]] == [1, 2, 3]
