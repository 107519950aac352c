"""Root does not leave files in another user's data directory that its server cannot open."""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke

_SOMEBODY = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can take another user's place")


@pytest.mark.parametrize(
    "command", [("account", "list"), ("approvals", "list"), ("project", "list")], ids=" ".join
)
def test_a_command_as_root_is_refused_in_the_data_directory_of_another_user(
    invoke: Invoke, tmp_path: Path, command: tuple[str, ...]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, _SOMEBODY, _SOMEBODY)

    result = invoke(*command, "--data-dir", home)

    assert result.exit_code == 2
    assert "sudo -u" in result.stderr
    assert list(home.iterdir()) == []
