"""The lines for programs in docs/quickstart.md run as they stand."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click import Option

from bridge_server.cli.dev.command import dev_command
from bridge_server.kit.testing.server import environment_without_settings
from tests.support.forked_program import folder_of_command

PAGE = (Path(__file__).parents[2] / "docs" / "quickstart.md").read_text("utf-8")
_SECONDS = 60.0


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page's lines need curl")
def test_the_lines_for_programs_run(tmp_path: Path) -> None:
    (script,) = re.findall(r"```sh\n(bridge-server dev .*?)```", PAGE, re.DOTALL)
    path = f"{folder_of_command(tmp_path)}:/usr/bin:/bin"
    folder = tmp_path / "folder"
    folder.mkdir()
    finished = subprocess.run(
        ["sh", "-euc", f"{script}wait"],
        cwd=folder,
        env={**environment_without_settings(), "PATH": path, "TMPDIR": str(folder)},
        capture_output=True,
        encoding="utf-8",
        timeout=_SECONDS,
        check=False,
    )

    assert finished.returncode == 0, finished.stderr
    assert "Hello World, this is Bridge Server" in finished.stdout
    assert [file.name for file in folder.iterdir()] == ["dev.log"]


def test_every_option_is_on_the_page() -> None:
    options = [each.opts[0] for each in dev_command.params if isinstance(each, Option)]

    assert [option for option in options if option not in PAGE and option != "--stop-with-parent"] == []
