"""Standard output that takes nothing, as on a full disk: one line, and exit code 2."""

import subprocess
from pathlib import Path

import pytest

from bridge_server.kit.testing.server import environment_without_settings
from tests.support.command import COMMAND
from tests.support.rows import each_row
from tests.support.slow import slow

_FULL = Path("/dev/full")


@slow
@pytest.mark.skipif(not _FULL.exists(), reason="needs /dev/full")
@each_row("command", [("config", "list"), ("openapi",), ("version", "--json")])
def test_a_command_says_that_its_output_cannot_be_written(command: tuple[str, ...]) -> None:
    with _FULL.open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *command],
            env=environment_without_settings(), stdout=full, stderr=subprocess.PIPE, timeout=30, check=False,
        )  # fmt: skip

    said = done.stderr.decode()
    assert said == "bridge-server: standard output cannot be written: No space left on device\n"
    assert done.returncode == 2
