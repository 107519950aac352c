"""The quickstart in Debian's Chromium: from the links of the banner to a notification."""

import re
from pathlib import Path

from tests.dev.test_command import links, running, until_printed
from tests.support.node_project import BROWSER_MARKS, run_specification

_HERE = Path(__file__).parent
_QUICKSTART = _HERE.parents[2] / "docs" / "quickstart.md"

pytestmark = BROWSER_MARKS


def test_a_reader_of_the_quickstart_sees_a_notification(tmp_path: Path) -> None:
    (example,) = re.findall(r"```sh\n(curl .*?)```", _QUICKSTART.read_text("utf-8"), re.DOTALL)
    with running(tmp_path) as dev:
        until_printed(dev, "  stop ")
        shown = links(dev.printed())
        variables = {
            "INBOX": shown["inbox"],
            "CONSOLE": shown["console"],
            "EXAMPLE": example,
            "URL": shown["bridge"],
            "SECRET": dev.facts["project"]["secret"],
        }

        output = run_specification(
            tmp_path / "specification", _HERE / "quickstart.spec.js", environment=variables
        )

    assert "2 passed" in output
