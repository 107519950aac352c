"""Figures that each process keeps for itself are answered for all processes together, at either of them."""

import asyncio
import os
import re
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.processes import (
    UNBOUNDED,
    ClusterProcess,
    Pair,
    answer_of,
    answer_of_all,
    database_of,
    known_to_each_other,
    once,
    page_of_all,
    processes_over,
)
from tests.support.admin_client import ADMIN_TOKEN, AdminClient, plain_account
from tests.support.asking import METRICS_TOKEN, figure
from tests.support.bridge_client import BridgeClient
from tests.support.command import run_command
from tests.support.console_client import ConsoleClient
from tests.support.postgres import needs_postgres
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver, status

pytestmark = [needs_postgres, pytest.mark.usefixtures("numbers")]

SETTINGS: dict[str, Any] = {
    **UNBOUNDED,
    "admin_token": ADMIN_TOKEN,
    "metrics_token": METRICS_TOKEN,
    "traffic": True,
    "quota_exempt": "none",
    "console": True,
    "allow_private_webhooks": True,
}
ATTEMPTS = "/admin/outbox/attempts"


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, Any]:
    return SETTINGS


async def test_figures_are_added_up_and_each_process_is_named(pair: Pair) -> None:
    first, second = pair
    numbers: dict[str | None, int] = {}

    async def opened() -> dict[str | None, int]:
        stats = await answer_of_all(first, "/admin/stats")
        each_has = {each["url"]: each["figures"]["sessions"]["since_start"] for each in stats["processes"]}
        numbers.update((each["url"], each["number"]) for each in stats["processes"])
        assert stats["sessions"]["since_start"] == sum(each_has.values())
        return each_has

    before = await opened()
    for process in (first, first, first, second):
        await process.server.open_session()

    after = {None: before[None] + 3, second.url: before[second.url] + 1}
    assert await opened() == after
    for url, number in numbers.items():
        alone = await answer_of(second, f"/admin/stats?process={number}")
        assert alone.json["sessions"]["since_start"] == after[url]
    own = (await AdminClient(second.server).get("/admin/stats?process=own")).json
    assert own["sessions"]["since_start"] == after[second.url]
    assert "processes" not in own


async def test_messages_that_are_owed_or_dead_are_counted_once(pair: Pair) -> None:
    async def are(due: int, dead: int) -> bool:
        stats = [
            (await AdminClient(each.server).get(f"/admin/stats{query}")).json["outbox"]
            for each in pair
            for query in ("", "?process=own")
        ]
        return all((each["due"], each["dead"]) == (due, dead) for each in stats)

    async with database_of(pair[0]) as wire:
        await wire.execute(
            "INSERT INTO outbox"
            " (message_id, destination, url, body, created_at_ms, next_attempt_at_ms, died_at_ms) "
            "SELECT CASE WHEN n < 3 THEN 'owed-' ELSE 'dead-' END || n, 'http://a.example', "
            "'http://a.example/', '{}', 0, CASE WHEN n < 3 THEN 9000000000000 END, "
            "CASE WHEN n >= 3 THEN 9000000000000 END FROM generate_series(0, 4) AS n"
        )
        await eventually(lambda: are(3, 2))  # a count that took long rests for a while
        await wire.execute("DELETE FROM outbox WHERE message_id IN ('owed-1', 'dead-4')")

        await eventually(lambda: are(2, 1))
        listed = await answer_of_all(pair[0], "/admin/stats")
        assert [each["figures"]["outbox"]["due"] for each in listed["processes"]] == [2, 2]
        for process in pair:
            assert [await figure(process.server, f"outbox_{name}") for name in ("due", "dead")] == [2, 1]
        await wire.execute("DELETE FROM outbox")


async def pages_of(process: ClusterProcess, path: str, name: str) -> list[list[dict[str, Any]]]:
    """The entries of each page of a list, to which every process has contributed."""
    pages: list[list[dict[str, Any]]] = []
    after = ""
    while True:
        page = await answer_of_all(process, path + after)
        pages.append(page[name])
        if page["next"] is None:
            return pages
        after = f"&after={page['next']}"


async def test_clients_are_listed_with_what_they_asked_of_all_processes(pair: Pair) -> None:
    before = (await answer_of_all(pair[0], "/admin/clients/127.0.0.1"))["since_start"]["sessions"]
    for process, count in zip(pair, (3, 2), strict=True):
        for _ in range(count):
            await process.server.open_session()

    for process in pair:
        listed = await answer_of_all(process, "/admin/clients?by=sessions&last=start")
        details = await answer_of_all(process, "/admin/clients/127.0.0.1")
        found = [(each["address"], each["sessions"]) for each in listed["clients"]]
        assert found == [("127.0.0.1", before + 5)]
        assert details["since_start"]["sessions"] == before + 5
        assert [each["fault"] for each in listed["processes"]] == [None, None]
        console = await ConsoleClient(process.server).sign_in()
        for path in ("/console/clients?by=sessions", "/console/clients/127.0.0.1?by=sessions"):
            page = await page_of_all(console, path)
            assert re.search(rf'data-label="Sessions" class="number">{before + 5}<', page)
            assert "Of 2 processes" in page


async def test_requests_of_all_processes_are_one_list_page_by_page(pair: Pair, numbers: list[int]) -> None:
    made = []
    for number in range(9):
        bridge = BridgeClient(pair[number % 2].server)
        made.append(await bridge.open_session())
        assert (await bridge.session(made[-1])).status == 204

    pages = await pages_of(pair[0], "/admin/traffic?filter=route:session&limit=2", "requests")

    seen = [request for page in pages for request in page]
    assert len(pages) == 5
    # The clocks of the processes agree to some milliseconds only. Each has its own in their order.
    assert [each["at"] for each in seen] == sorted((each["at"] for each in seen), reverse=True)
    for place, number in enumerate(numbers):
        own = [each["session"]["id"][:8] for each in reversed(seen) if each["process"] == number]
        assert own == [each[:8] for each in made[place::2]]
    for request in seen:
        path = f"/admin/traffic/{request['number']}?process={request['process']}"
        assert (await answer_of(pair[0], path)).json["at"] == request["at"]
        for process in pair:
            assert (await answer_of(process, f"/admin/sessions/{request['session']['handle']}")).status == 200
    assert (await answer_of(pair[0], f"/admin/traffic/99999?process={numbers[1]}")).status == 404


async def test_a_session_is_shown_as_all_processes_have_seen_it(pair: Pair, numbers: list[int]) -> None:
    dapp, wallet = (BridgeClient(each.server) for each in pair)
    session_id = await dapp.open_session()
    await dapp.request_call(session_id)
    await wallet.update(session_id)

    dapps, wallets = numbers
    for process, own_requests in zip(pair, (2, 1), strict=True):
        listed, *_ = (await answer_of_all(process, "/admin/sessions"))["sessions"]
        assert listed["id"][:8] == session_id[:8]
        assert None not in (listed["dapp"], listed["dapp_seen_at"], listed["wallet_seen_at"])
        story = await answer_of_all(process, f"/admin/sessions/{listed['handle']}")
        times = [each["at"] for each in story["requests"]]
        assert times == sorted(times, reverse=True)
        moves = sorted((each["process"], each["method"]) for each in story["requests"])
        assert moves == sorted([(dapps, "POST"), (dapps, "POST"), (wallets, "PUT")])
        own = await AdminClient(process.server).get(f"/admin/sessions/{listed['handle']}?process=own")
        assert len(own.json["requests"]) == own_requests


async def test_attempts_of_all_processes_are_one_list_page_by_page(
    pair: Pair, receiver: WebhookReceiver
) -> None:
    for number in range(7):
        admin = AdminClient(pair[number % 2].server)
        await admin.post("/admin/webhooks/test", {"url": receiver.url(f"/{number}")})

    pages = await pages_of(pair[1], f"{ATTEMPTS}?kind=webhook&limit=3", "attempts")

    counted = (await answer_of_all(pair[1], f"{ATTEMPTS}?kind=webhook&limit=3"))["outcomes"]
    assert counted == {"webhook": {"delivered": 7}}
    assert [len(page) for page in pages] == [3, 3, 1]
    seen = [attempt for page in pages for attempt in page]
    assert [each["at"] for each in seen] == sorted((each["at"] for each in seen), reverse=True)
    assert sorted(Counter(each["process"] for each in seen).values()) == [3, 4]
    assert len({each["message_id"] for each in seen}) == 7
    for each in seen:
        for process in pair:
            path = f"{ATTEMPTS}/{each['number']}?process={each['process']}"
            assert (await answer_of(process, path)).json["message_id"] == each["message_id"]
    console = await ConsoleClient(pair[0].server).sign_in()
    listed = await page_of_all(console, "/console/webhooks/attempts")
    links = re.findall(r'href="(/console/webhooks/attempts/[^"]+)"', listed)
    for link, each in zip(links, seen, strict=True):
        assert f"{each['message_id']}</dd>" in await console.page(link)


async def test_a_message_is_shown_with_the_attempts_of_all_processes(
    pair: Pair, receiver: WebhookReceiver
) -> None:
    receiver.script += [status(503, Retry_After="3600")] * 3  # no attempt is made by itself
    first, second = (AdminClient(each.server) for each in pair)
    await first.create("app", "news")
    await first.put("/admin/projects/app/webhook", {"url": receiver.url()})
    await first.subscribe("app", plain_account(0))

    async def message_after(attempts: int) -> str:
        """The path of the message, once so many attempts have failed."""

        async def messages() -> list[dict[str, Any]]:
            return list((await first.get("/admin/outbox")).json["messages"])

        (found,) = await once(lambda all_: [each["attempts"] for each in all_] == [attempts], messages)
        return f"/admin/outbox/{found['id']}"

    path = await message_after(1)
    for attempts, admin in ((2, second), (3, first)):
        # The other process gives the destination up after a moment.
        await once(lambda answer: answer.status == 200, partial(admin.post, f"{path}/retry"))
        await message_after(attempts)

    whole = [(await answer_of_all(each, path))["last_attempts"] for each in pair]
    assert whole[0] == whole[1]
    assert [each["outcome"] for each in whole[0]] == ["failed"] * 3


async def test_a_process_that_does_not_answer_is_named_and_holds_nobody_up(url: str, tmp_path: Path) -> None:
    async with processes_over(url, tmp_path, **SETTINGS) as (first, second):
        await known_to_each_other([first, second])
        admin = AdminClient(first.server)
        os.kill(second.pid, signal.SIGSTOP)
        try:
            # All at once: a process that has not been seen for half a minute is not asked any more.
            asked = (admin.get(f"/admin/{name}") for name in ("stats", "clients", "traffic"))
            stats, *others = [each.json["processes"] for each in await asyncio.gather(*asked)]
            for processes in (stats, *others):
                assert [each["fault"] for each in processes] == [None, "did not answer within 2 s"]
            assert stats[1]["figures"] is None
            data_dir, variables = first.process.data_dir, {"BRIDGE_ADMIN_TOKEN": ADMIN_TOKEN}
            commands = (
                asyncio.to_thread(run_command, name, "--data-dir", data_dir, environment=variables)
                for name in ("stats", "clients")
            )
            for printed in await asyncio.gather(*commands):
                assert f"({second.url})" in printed.out, printed.err
                assert "did not answer within 2 s" in printed.out
            problem = (await admin.get(f"/admin/stats?process={stats[1]['number']}")).problem(503)
            assert second.url in problem["detail"]
        finally:
            os.kill(second.pid, signal.SIGCONT)
        second.process.kill()

        gone = (await admin.get("/admin/stats")).json["processes"][1]
        assert gone["fault"].startswith("cannot be reached")


@each_row(
    ("path", "detail"),
    [
        ("stats?process=x", "takes the number of a process, or own"),
        ("stats?process=999999", "No process 999999 runs on the database"),
        ("traffic?after=12", "does not come from `next`"),
        ("traffic?since=1:2:3", "is no change"),
        ("traffic/stream?since=x", "is no change"),
        ("traffic/stream?process=999999", "No process 999999 runs on the database"),
    ],
)
async def test_a_process_that_cannot_be_asked_is_refused(pair: Pair, path: str, detail: str) -> None:
    assert detail in (await AdminClient(pair[0].server).get(f"/admin/{path}")).problem(400)["detail"]
