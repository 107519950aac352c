"""The pages of notifications in Debian's Chromium, by Playwright: a person's steps, and axe-core."""

import asyncio
from pathlib import Path

import orjson

from tests.support.chromium import CONFIGURATION, needs_chromium
from tests.support.console_client import ConsoleClient, new_link
from tests.support.console_projects import make_project, subscribe, subscribe_crowd
from tests.support.node_packages import needs_test_runners
from tests.support.node_project import NodeProject
from tests.support.server import running_server
from tests.support.slow import slow

_FOLDER = Path(__file__).parent
_TESTS = 11
_READER = "test:chain:reader"
_HOSTILE = '<img src=x onerror="hacked=1">\u202e\'"'

pytestmark = [slow, needs_chromium]


@needs_test_runners
async def test_a_person_uses_the_pages_of_notifications(tmp_path: Path) -> None:
    project = NodeProject(tmp_path, "@playwright/test", "playwright", "playwright-core", "axe-core")
    project.write(
        {
            "package.json": orjson.dumps({"type": "module"}).decode(),
            "playwright.config.js": CONFIGURATION,
            **{name: (_FOLDER / name).read_text("utf-8") for name in ("notifications.spec.js", "window.js")},
        }
    )
    async with running_server(tmp_path / "data", console=True, test=True) as server:
        browser = await ConsoleClient(server).sign_in()
        await make_project(browser, "shop", "news", "deals", name="Shop")
        await subscribe(browser, "shop", _READER)
        subscribe_crowd(browser, 8_000, _READER, "shop")
        for number in range(4):
            await _send(browser, "shop", _READER, title=f"Number {number}.", body="Body")
        await make_project(browser, "hostile", "news", name=_HOSTILE)
        await subscribe(browser, "hostile", "test:chain:hostile")
        await _send(browser, "hostile", "test:chain:hostile", title=_HOSTILE, body=_HOSTILE)
        links = [f"{server.url}{await new_link(server)}" for _ in range(_TESTS)]
        project.write({"links": "\n".join(links)})
        variables = {
            "CONSOLE_URL": f"{server.url}/console",
            "CONSOLE_LINKS": str(tmp_path / "links"),
            "CONSOLE_NOTIFICATION": "/console/notifications/shop/4",
        }

        output = await asyncio.to_thread(
            project.run, project.program("@playwright/test"), "test", environment=variables
        )

    assert f"{_TESTS} passed" in output


async def _send(browser: ConsoleClient, project_id: str, account: str, title: str, body: str) -> None:
    answer = await browser.send(
        f"/console/compose?project_id={project_id}",
        "send",
        type="news",
        title=title,
        body=body,
        accounts=account,
        notification_id=title,
    )
    assert answer.status == 303, answer.body.decode()
