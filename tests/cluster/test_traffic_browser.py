"""The live list of two processes' requests in Debian's Chromium."""

from pathlib import Path

import orjson

from tests.cluster.processes import UNBOUNDED, answer_of_all, cluster_url, processes_over
from tests.support.admin_client import ADMIN_TOKEN
from tests.support.browser_tests import BROWSER_MARKS, run_console_specification
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, needs_postgres

_SPECIFICATION = Path(__file__).parent / "traffic.spec.js"

pytestmark = [*BROWSER_MARKS, needs_postgres]


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
        files = {"processes.json": orjson.dumps(facts).decode()}
        await run_console_specification(tmp_path, pair[0].server, _SPECIFICATION, files)
