"""Commands on a data directory, one line each."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import Result

from tests.cli.conftest import Invoke


@dataclass(frozen=True, slots=True)
class Operating:
    """Runs commands on one data directory, in this process."""

    invoke: Invoke
    data_dir: Path

    def __call__(self, *arguments: str | Path) -> Result:
        """Whatever becomes of the command, but for an exception that it does not handle."""
        result = self.invoke(*arguments, "--data-dir", self.data_dir)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def text(self, *arguments: str | Path) -> str:
        """What a command printed that must succeed."""
        result = self(*arguments)
        assert (result.exit_code, result.stderr) == (0, ""), result.stderr
        return result.stdout

    def json(self, *arguments: str | Path) -> Any:
        """The one JSON document that it printed."""
        (line,) = self.text(*arguments, "--json").splitlines()
        return json.loads(line)

    def lines(self, *arguments: str | Path) -> list[Any]:
        """The JSON Lines that it printed."""
        return [json.loads(line) for line in self.text(*arguments).splitlines()]

    def refusal(self, *arguments: str | Path) -> str:
        """The one line that a command said that must fail."""
        result = self(*arguments)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        (line,) = result.stderr.splitlines()
        assert line.startswith("bridge-server: ")
        return line.removeprefix("bridge-server: ")
