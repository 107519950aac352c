"""The console in Debian's Chromium, by Playwright: a person's steps on each page, and axe-core."""

from pathlib import Path

from tests.support.browser_tests import BROWSER_MARKS, run_console_specification
from tests.support.console_client import ConsoleClient
from tests.support.server import running_server

_SPECIFICATION = Path(__file__).parent / "console.spec.js"
_HOSTILE = '<img src=x onerror="hacked=1">\u202e\'"'

pytestmark = BROWSER_MARKS


async def test_a_person_uses_each_page(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", console=True, test=True) as server:
        browser = await ConsoleClient(server).sign_in()
        await browser.send("/console/projects", "create", name="Shop", project_id="shop")
        await browser.send("/console/projects", "create", name=_HOSTILE, project_id="hostile")
        await browser.send("/console/projects/hostile", "add-type", name=_HOSTILE, type_id="bad")

        output = await run_console_specification(tmp_path, server, _SPECIFICATION)

    assert "14 passed" in output
