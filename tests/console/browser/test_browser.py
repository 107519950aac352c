"""The console in Debian's Chromium, by Playwright: a person's steps on each page, and axe-core."""

import asyncio
from pathlib import Path

import orjson

from tests.support.chromium import CONFIGURATION, needs_chromium
from tests.support.console_client import ConsoleClient, new_link
from tests.support.node_packages import needs_test_runners
from tests.support.node_project import NodeProject
from tests.support.server import running_server
from tests.support.slow import slow

_FOLDER = Path(__file__).parent
_TESTS = 14
_HOSTILE = '<img src=x onerror="hacked=1">\u202e\'"'

pytestmark = [slow, needs_chromium]


@needs_test_runners
async def test_a_person_uses_each_page(tmp_path: Path) -> None:
    project = NodeProject(tmp_path, "@playwright/test", "playwright", "playwright-core", "axe-core")
    project.write(
        {
            "package.json": orjson.dumps({"type": "module"}).decode(),
            "playwright.config.js": CONFIGURATION,
            **{name: (_FOLDER / name).read_text("utf-8") for name in ("console.spec.js", "window.js")},
        }
    )
    async with running_server(tmp_path / "data", console=True, test=True) as server:
        browser = await ConsoleClient(server).sign_in()
        await browser.send("/console/projects", "create", name="Shop", project_id="shop")
        await browser.send("/console/projects", "create", name=_HOSTILE, project_id="hostile")
        await browser.send("/console/projects/hostile", "add-type", name=_HOSTILE, type_id="bad")
        links = [f"{server.url}{await new_link(server)}" for _ in range(_TESTS)]
        project.write({"links": "\n".join(links)})
        variables = {"CONSOLE_URL": f"{server.url}/console", "CONSOLE_LINKS": str(tmp_path / "links")}

        output = await asyncio.to_thread(
            project.run, project.program("@playwright/test"), "test", environment=variables
        )

    assert f"{_TESTS} passed" in output
