"""Frames of sockets in the record of requests, where one is kept: with short topics, and no payload."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.pubsub.conftest import Connect, Join
from tests.pubsub.conftest import join as join  # noqa: PLC0414 - a fixture
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.server import RunningServer, running_server
from tests.support.socket_client import RelayError, topic_of

TOPIC = topic_of("some topic")
SHORT = f"{TOPIC[:8]}…"


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


async def test_publications_of_2x_are_delivered_or_wait(observed: RunningServer, join: Join) -> None:
    dapp, wallet = await join(to=observed), await join(to=observed)
    await dapp.publish(TOPIC, "early", tag=1100)
    await wallet.ask("irn_subscribe", {"topic": TOPIC})
    assert await wallet.message() == "early"
    await dapp.publish(TOPIC, "m" * 412)
    await wallet.ask("irn_unsubscribe", {"topic": TOPIC, "id": "x"})
    await wallet.subscribe(TOPIC, topic_of("b"))

    lines = await carried(observed, "2.x")

    place = where_nobody_is(observed)
    assert lines == [
        (200, f"irn_publish, tag 1100, 5 B to topic {SHORT}: {place}"),
        (200, f"irn_subscribe, topic {SHORT}"),
        (200, f"irn_publish, tag 1108, 412 B to topic {SHORT}: delivered"),
        (200, f"irn_unsubscribe, topic {SHORT}"),
        (200, "irn_batchSubscribe, 2 topics"),
    ]
    assert TOPIC not in orjson.dumps((await AdminClient(observed).get("/admin/traffic")).json).decode()


async def test_a_refusal_of_2x_has_its_reason(observed: RunningServer, join: Join) -> None:
    dapp = await join(to=observed)
    for method, params in (("irn_publish", {"topic": "short"}), ("irn_nothing", {})):
        with pytest.raises(RelayError):
            await dapp.ask(method, params)
    with pytest.raises(RelayError):
        await dapp.publish(TOPIC, "m" * 2_000)

    lines = await carried(observed, "2.x")

    assert [(status, summary.partition(":")[0]) for status, summary in lines] == [
        (400, "irn_publish"),
        (400, "irn_nothing"),
        (413, "irn_publish"),
    ]
    assert "2000 bytes" in lines[-1][1]


async def test_frames_of_1x_are_delivered_or_wait(observed: RunningServer, connect: Connect) -> None:
    dapp, wallet = await connect(to=observed), await connect(to=observed)
    await dapp.publish("topic-of-both", "early")
    await wallet.subscribe("topic-of-both")
    await dapp.publish("topic-of-both", "later on")

    lines = await carried(observed, "1.x")

    place = where_nobody_is(observed)
    assert lines == [
        (200, f"pub, 5 B to topic topic-of…: {place}"),
        (200, "sub, topic topic-of…"),
        (200, "pub, 8 B to topic topic-of…: delivered"),
    ]


def where_nobody_is(server: RunningServer) -> str:
    """The word for a message without a receiver: on PostgreSQL another process may have one."""
    return "waiting" if server.settings.database is None else "stored"
