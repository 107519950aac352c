"""The command line without whatever settings the machine that runs the tests has."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bridge_server.cli.commands import commands
from tests.support.engines import engine_environment

_OF_SYSTEMD = ("CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "STATE_DIRECTORY")

Invoke = Callable[..., Result]


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().startswith("BRIDGE_") or name in _OF_SYSTEMD:
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))


@pytest.fixture
def invoke() -> Invoke:
    """Runs a command in this process, on the database that servers over its data directory have."""
    runner = CliRunner()

    def run(*arguments: str | Path) -> Result:
        words = list(map(str, arguments))
        return runner.invoke(commands, words, prog_name="bridge-server", env=_database(words))

    return run


def _database(words: Sequence[str]) -> Mapping[str, str]:
    """Variables that name the database of the command's data directory, if the run has databases."""
    if "--data-dir" not in words:
        return {}
    return engine_environment(Path(words[words.index("--data-dir") + 1]))


@pytest.fixture
def config_file(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a TOML file."""

    def write(toml: str) -> Path:
        file = tmp_path / "bridge.toml"
        file.write_text(toml, "utf-8")
        return file

    return write
