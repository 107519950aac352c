"""The command line without whatever settings the machine that runs the tests has."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bridge_server.cli.commands import commands
from bridge_server.settings.sources import LoadedSettings, SettingsError, load_settings
from tests.support.engines import engine_environment

_OF_SYSTEMD = ("CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "STATE_DIRECTORY")

Invoke = Callable[..., Result]
SetUp = Callable[..., None]


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

    def run(*arguments: str | Path, stdin: str | bytes = "") -> Result:
        words = list(map(str, arguments))
        return runner.invoke(commands, words, stdin, prog_name="bridge-server", env=_database(words))

    return run


def _database(words: Sequence[str]) -> Mapping[str, str]:
    """Variables that name the database of the command's data directory, if the run has databases."""
    if "--data-dir" not in words:
        return {}
    return engine_environment(Path(words[words.index("--data-dir") + 1]))


@pytest.fixture
def set_up(monkeypatch: pytest.MonkeyPatch) -> SetUp:
    """Sets settings by variables, to the end of the test."""

    def set_variables(**settings: object) -> None:
        for name, value in settings.items():
            monkeypatch.setenv(f"BRIDGE_{name.upper()}", str(value))

    return set_variables


class Loading:
    """Reads settings as a start does: from a file with this text, variables, and flags."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "bridge.toml"

    def __call__(
        self, toml: str | None = None, environment: Mapping[str, str] | None = None, /, **flags: Any
    ) -> LoadedSettings:
        if toml is not None:
            self.file.write_text(toml, "utf-8")
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (environment or {}).items():
                patch.setenv(name, value)
            return load_settings(flags, None if toml is None else self.file)

    def fault(
        self, toml: str | None = None, environment: Mapping[str, str] | None = None, /, **flags: Any
    ) -> str:
        """What is said of settings that cannot be used."""
        with pytest.raises(SettingsError) as refused:
            self(toml, environment, **flags)
        return str(refused.value)


@pytest.fixture
def load(tmp_path: Path) -> Loading:
    return Loading(tmp_path)
