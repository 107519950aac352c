"""The inbox's web component in Debian's Chromium, by Playwright and the JavaScript kit's wallet."""

import re
from pathlib import Path

import pytest

from tests.support.chromium import CONFIGURATION, needs_chromium
from tests.support.node_packages import needs_test_runners
from tests.support.node_project import NodeProject

_HERE = Path(__file__).parent
_PAGE = _HERE.parents[2] / "docs" / "inbox.md"
_FILE = re.compile(r"```(?:html|js|css)\n(?:// |<!-- |/\* )([\w.]+)(?: -->| \*/)?\n(.*?)```", re.DOTALL)
_POLICY = re.compile(r"^Content-Security-Policy: [^`]*", re.MULTILINE)

pytestmark = [needs_test_runners, needs_chromium]


@pytest.mark.parametrize("file", sorted(_HERE.glob("*.spec.js")), ids=lambda file: file.stem)
def test_an_account_uses_its_inbox(tmp_path: Path, file: Path) -> None:
    project = NodeProject(tmp_path, "@playwright/test", "playwright", "playwright-core", "axe-core")
    sources = {name: (_HERE / name).read_text("utf-8") for name in ("shop.js", file.name)}
    project.write({"playwright.config.js": CONFIGURATION, **sources, **_example()})

    output = project.run(project.program("@playwright/test"), "test")

    assert re.search(r"^\s*[1-9][0-9]* passed", output, re.MULTILINE)


def _example() -> dict[str, str]:
    """The files of the documentation's example, and the header with its policy."""
    text = _PAGE.read_text("utf-8")
    files = {f"page-{name}": content for name, content in _FILE.findall(text)}
    assert set(files) == {"page-shop.html", "page-shop.js", "page-shop.css"}
    (policy,) = _POLICY.findall(text)
    return {**files, "policy.txt": " ".join(policy.split())}
