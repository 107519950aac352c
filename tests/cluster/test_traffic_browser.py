"""The live list of two processes' requests in Debian's Chromium."""

from pathlib import Path

import orjson

from tests.cluster.processes import UNBOUNDED, answer_of_all, cluster_url, processes_over
from tests.support.admin_client import ADMIN_TOKEN
from tests.support.browser_tests import run_specification
from tests.support.chromium import needs_chromium
from tests.support.eventually import eventually
from tests.support.node_packages import needs_test_runners
from tests.support.postgres import PostgresServer, needs_postgres
from tests.support.slow import slow

_SPECIFICATION = Path(__file__).parent / "traffic.spec.js"
_WINDOW = Path(__file__).parents[1] / "console" / "browser" / "window.js"

pytestmark = [slow, needs_chromium, needs_postgres, needs_test_runners]


async def test_a_person_watches_the_traffic_of_two_processes(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = await cluster_url(postgres, "browser")
    settings = {**UNBOUNDED, "admin_token": ADMIN_TOKEN, "console": True}
    async with processes_over(url, tmp_path, **settings) as pair:
        numbers: list[int] = []

        async def know_each_other() -> bool:
            lists = [(await answer_of_all(each, "/admin/stats"))["processes"] for each in pair]
            numbers[:] = [each["number"] for each in lists[0]]
            return [len(each) for each in lists] == [2, 2]

        await eventually(know_each_other)
        facts = {"urls": [each.url for each in pair], "numbers": numbers}
        files = {"window.js": _WINDOW.read_text("utf-8"), "processes.json": orjson.dumps(facts).decode()}
        await run_specification(tmp_path, pair[0].server, _SPECIFICATION, "1/1", files)
