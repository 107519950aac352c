"""`serve --test` as a test suite starts it: a ready file with a token, on this machine only."""

import signal
import stat
from pathlib import Path

from tests.support.command import run_command, watched_server


def test_the_ready_file_has_the_token_and_is_private(tmp_path: Path) -> None:
    with watched_server(tmp_path, "--test") as server:
        ready_file = next(tmp_path.glob("*ready*"))

        assert len(server.facts["test_token"]) == 43
        assert stat.S_IMODE(ready_file.stat().st_mode) == 0o600
        assert server.stop(signal.SIGTERM) == 0
        assert server.facts["test_token"] not in str(server.log())


def test_test_mode_is_refused_where_others_could_reach_it(tmp_path: Path) -> None:
    refused = run_command("serve", "--test", "--host", "0.0.0.0", "--data-dir", tmp_path / "data")

    assert refused.exit_code == 2
    (line,) = refused.err.splitlines()
    assert line.endswith("listen on 127.0.0.1, or leave it out")
    assert not (tmp_path / "data").exists()
