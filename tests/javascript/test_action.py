"""action.yml starts a server that the other steps of a job find, and the steps on docs/test.md use it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent

import orjson
import pytest

from tests.javascript.pages import section
from tests.support.needs import slow, with_present_pip
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
        self._pip = with_present_pip(folder)
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
                **self._pip,
                **self.variables,
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_SECONDS,
            check=False,
        )


_SETTINGS = {"BRIDGE_ACTION_SETTINGS": "session_ttl = 60\n", "BRIDGE_ACTION_DEV_ACCOUNTS": "true"}


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path)
    yield job
    ready_file = job.temporary / "bridge-server" / "ready.json"
    if ready_file.exists():
        os.kill(orjson.loads(ready_file.read_bytes())["pid"], signal.SIGTERM)


def with_this_environment(job: Job) -> None:
    """Stand in for the first step, which installs the server."""
    (job.temporary / "bridge-server").mkdir()
    (job.temporary / "bridge-server" / "venv").symlink_to(sys.prefix, target_is_directory=True)


def use_it(job: Job) -> None:
    """Run the steps on the page."""
    moved, accounts = (job.run(commands) for commands in commands_in(workflow()))
    assert orjson.loads(moved.stdout)["swept"] >= 0, moved.stderr
    assert len(orjson.loads(accounts.stdout)["result"]) == 10, accounts.stderr


def test_the_steps_of_the_page_use_the_server(job: Job) -> None:
    with_this_environment(job)

    started = job.run(action_commands()[1], _SETTINGS)

    assert started.returncode == 0, started.stderr
    assert f"::add-mask::{job.variables['BRIDGE_TEST_TOKEN']}" in started.stdout
    assert job.variables["BRIDGE_RPC_URL"] == job.variables["BRIDGE_URL"] + "/rpc"
    assert "unknown_setting" not in (job.temporary / "bridge-server" / "log").read_text("utf-8")
    use_it(job)


def test_a_setting_that_cannot_be_read_fails_the_step(job: Job) -> None:
    with_this_environment(job)

    started = job.run(action_commands()[1], {"BRIDGE_ACTION_SETTINGS": "session_tll = 60"})

    assert started.returncode == 1
    assert "Bridge Server did not start:" in started.stderr
    assert "session_tll" in started.stderr
    assert job.variables == {}


@slow
@pytest.mark.timeout(900)
def test_the_action_installs_what_it_starts(job: Job) -> None:
    for commands in action_commands():
        step = job.run(commands, _SETTINGS)
        assert step.returncode == 0, step.stderr

    use_it(job)
