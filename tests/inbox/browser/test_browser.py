"""The inbox's web component in Debian's Chromium, by Playwright and the JavaScript kit's wallet."""

import re
from pathlib import Path

from tests.support.node_project import BROWSER_MARKS, run_specification

_HERE = Path(__file__).parent
_PAGE = _HERE.parents[2] / "docs" / "notify.md"
_FILE = re.compile(r"```(?:html|js|css)\n(?:// |<!-- |/\* )([\w.]+)(?: -->| \*/)?\n(.*?)```", re.DOTALL)
_POLICY = re.compile(r"^Content-Security-Policy: [^`]*", re.MULTILINE)

pytestmark = BROWSER_MARKS


def test_an_account_uses_its_inbox(tmp_path: Path) -> None:
    specifications = sorted(_HERE.glob("*.spec.js"))
    files = {"shop.js": (_HERE / "shop.js").read_text("utf-8"), **_example()}

    output = run_specification(tmp_path, *specifications, files=files)

    assert re.search(r"^\s*[1-9][0-9]* passed", output, re.MULTILINE)


def _example() -> dict[str, str]:
    """The files of the documentation's example, and the header with its policy."""
    text = _PAGE.read_text("utf-8")
    files = {f"page-{name}": content for name, content in _FILE.findall(text)}
    assert set(files) == {"page-shop.html", "page-shop.js", "page-shop.css"}
    (policy,) = _POLICY.findall(text)
    return {**files, "policy.txt": " ".join(policy.split())}
