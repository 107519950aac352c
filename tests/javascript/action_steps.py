"""The steps of action.yml and of the workflow in docs/test.md, run as GitHub Actions runs them."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from tests.javascript.pages import section
from tests.support.needs import LAZY_PIP
from tests.support.node_project import ROOT

_RUN = re.compile(r"^( *)(?:- )?run: \|\n((?:\1 +.*\n|\n)+)", re.MULTILINE)
_SECONDS = 600.0


def commands_in(yaml: str) -> list[str]:
    """The commands of each `run: |`, first to last."""
    return [dedent(match[1]) for match in _RUN.findall(yaml)]


def action_commands() -> list[str]:
    """The commands of the steps in action.yml: install, start."""
    return commands_in((ROOT / "action.yml").read_text("utf-8"))


def workflow() -> str:
    """The workflow on the page."""
    (yaml,) = re.findall(r"```yaml\n(.*?)```", section("GitHub Actions"), re.DOTALL)
    return str(yaml)


class Job:
    """A job with the folders and files that GitHub Actions has for it."""

    def __init__(self, folder: Path) -> None:
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self._files = {name: folder / name for name in ("GITHUB_ENV", "GITHUB_OUTPUT")}
        for file in self._files.values():
            file.touch()

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that steps have set for the steps after them."""
        return dict(line.split("=", 1) for line in self._files["GITHUB_ENV"].read_text("utf-8").splitlines())

    def run(
        self, commands: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run one step."""
        script = self.temporary / "step.sh"
        script.write_text(commands, "utf-8")
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", script],
            env={
                **os.environ,
                **{name: str(file) for name, file in self._files.items()},
                "RUNNER_TEMP": str(self.temporary),
                "GITHUB_ACTION_PATH": str(ROOT),
                **LAZY_PIP,
                **self.variables,
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_SECONDS,
            check=False,
        )
