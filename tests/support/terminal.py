"""Commands at a terminal."""

import os
import pty
from collections.abc import Mapping
from pathlib import Path

from bridge_server.kit.testing.server import environment_without_settings
from tests.support.forked_process import fork_server


def shown_at_terminal(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """What a command, which must succeed, writes to a terminal that is its input and output."""
    ours, its = pty.openpty()
    variables = {**environment_without_settings(), "COLUMNS": "200", **(environment or {})}
    try:
        run = fork_server().start([*map(str, arguments)], variables, its, its, its)
    finally:
        os.close(its)
    written = b""
    try:
        while piece := os.read(ours, 65_536):
            written += piece
    except OSError:  # Linux says so when the last writer has closed the terminal
        pass
    finally:
        os.close(ours)
    assert run.wait() == 0, written
    return written.decode()
