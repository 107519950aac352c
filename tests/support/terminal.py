"""Commands at a terminal."""

import os
import pty
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bridge_server.kit.testing.server import environment_without_settings
from tests.support.command import COMMAND


def shown_at_terminal(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """What a command, which must succeed, writes to a terminal that is its input and output."""
    ours, its = pty.openpty()
    variables = {**environment_without_settings(), "COLUMNS": "200", **(environment or {})}
    command = [*COMMAND, *map(str, arguments)]
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=variables) as run:
        os.close(its)
        written = b""
        try:
            while piece := os.read(ours, 65_536):
                written += piece
        except OSError:  # Linux says so when the last writer has closed the terminal
            pass
        finally:
            os.close(ours)
    assert run.returncode == 0, written
    return written.decode()
