"""action.yml starts a server that the other steps of a job find, and the steps on docs/test.md use it."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.javascript.action_steps import Job, action_commands, commands_in, workflow
from tests.support.needs import slow

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
