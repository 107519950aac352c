"""The inbox's web component in Debian's Chromium, by Playwright and the JavaScript kit's wallet."""

from pathlib import Path

import pytest

from tests.support.node_packages import needs_test_runners
from tests.support.node_project import NodeProject

_CHROMIUM = Path("/usr/bin/chromium")
_CONFIGURATION = f"""
export default {{
  workers: 1,
  timeout: 30000,
  use: {{ launchOptions: {{ executablePath: '{_CHROMIUM}', args: ['--no-sandbox'] }} }},
}}
"""

pytestmark = [
    needs_test_runners,
    pytest.mark.skipif(
        not _CHROMIUM.exists(), reason="needs Chromium: `scripts/system-packages` installs it"
    ),
]


def test_an_account_uses_its_inbox(tmp_path: Path) -> None:
    project = NodeProject(tmp_path, "@playwright/test", "playwright", "playwright-core", "axe-core")
    source = Path(__file__).with_name("inbox.spec.js").read_text("utf-8")
    project.write({"playwright.config.js": _CONFIGURATION, "inbox.spec.js": source})

    output = project.run(project.program("@playwright/test"), "test")

    assert f"{source.count('test(')} passed" or output
    assert "failed" not in output
