"""Frames of sockets in the record of requests, where one is kept: with short topics, and no payload."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.pubsub.conftest import Connect, Join, error_of
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.server import RunningServer, running_server
from tests.support.socket_client import topic_of

TOPIC = topic_of("some topic")


@pytest.fixture
async def observed(tmp_path: Path) -> AsyncIterator[RunningServer]:
    settings: dict[str, Any] = {"admin_token": ADMIN_TOKEN, "traffic": True, "message_limit": 2_000}
    async with running_server(tmp_path / "data", **settings) as server:
        yield server


async def carried(server: RunningServer, generation: str) -> list[tuple[int, str]]:
    """Status and summary of each line of the generation, oldest first."""
    page = (await AdminClient(server).get(f"/admin/traffic?filter=method:{generation}")).json
    assert all(each["path"] == "/" for each in page["requests"])
    return [(each["status"], each["summary"]) for each in reversed(page["requests"])]


async def test_publications_of_2x_are_delivered_or_wait_or_are_refused_for_a_reason(
    observed: RunningServer, join: Join
) -> None:
    dapp, wallet = await join(to=observed), await join(to=observed)
    await dapp.publish(TOPIC, "early", tag=1100)
    await wallet.ask("irn_subscribe", {"topic": TOPIC})
    assert await wallet.message() == "early"
    await dapp.publish(TOPIC, "m" * 412)
    await wallet.ask("irn_unsubscribe", {"topic": TOPIC, "id": "x"})
    await wallet.subscribe(TOPIC, topic_of("b"))
    for method, params in (("irn_publish", {"topic": "short"}), ("irn_nothing", {})):
        await error_of(dapp.ask(method, params))
    await error_of(dapp.publish(TOPIC, "m" * 2_000))

    *lines, no_topic, no_method, too_large = await carried(observed, "2.x")

    place, short = where_nobody_is(observed), f"{TOPIC[:8]}…"
    assert lines == [
        (200, f"irn_publish, tag 1100, 5 B to topic {short}: {place}"),
        (200, f"irn_subscribe, topic {short}"),
        (200, f"irn_publish, tag 1108, 412 B to topic {short}: delivered"),
        (200, f"irn_unsubscribe, topic {short}"),
        (200, "irn_batchSubscribe, 2 topics"),
    ]
    assert (no_topic[0], no_topic[1].partition(":")[0]) == (400, "irn_publish")
    assert (no_method[0], no_method[1].partition(":")[0]) == (400, "irn_nothing")
    assert (too_large[0], too_large[1].partition(":")[0]) == (413, "irn_publish")
    assert "2000 bytes" in too_large[1]
    assert TOPIC not in orjson.dumps((await AdminClient(observed).get("/admin/traffic")).json).decode()


async def test_frames_of_1x_are_delivered_or_wait(observed: RunningServer, connect: Connect) -> None:
    dapp, wallet = await connect(to=observed), await connect(to=observed)
    await dapp.publish("topic-of-both", "early")
    await wallet.subscribe("topic-of-both")
    await dapp.publish("topic-of-both", "later on")

    assert await carried(observed, "1.x") == [
        (200, f"pub, 5 B to topic topic-of…: {where_nobody_is(observed)}"),
        (200, "sub, topic topic-of…"),
        (200, "pub, 8 B to topic topic-of…: delivered"),
    ]


def where_nobody_is(server: RunningServer) -> str:
    """The word for a message without a receiver: on PostgreSQL another process may have one."""
    return "waiting" if server.settings.database is None else "stored"
