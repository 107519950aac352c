"""The pages of notifications in Debian's Chromium, by Playwright: a person's steps, and axe-core."""

from pathlib import Path

from tests.support.browser_tests import BROWSER_MARKS, run_console_specification
from tests.support.console_client import ConsoleClient
from tests.support.console_projects import make_project, subscribe, subscribe_crowd
from tests.support.server import running_server

_SPECIFICATION = Path(__file__).parent / "notifications.spec.js"
_READER = "test:chain:reader"
_HOSTILE = '<img src=x onerror="hacked=1">\u202e\'"'

pytestmark = BROWSER_MARKS


async def test_a_person_uses_the_pages_of_notifications(tmp_path: Path) -> None:
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

        output = await run_console_specification(
            tmp_path,
            server,
            _SPECIFICATION,
            environment={"CONSOLE_NOTIFICATION": "/console/notifications/shop/4"},
        )

    assert "11 passed" in output


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
