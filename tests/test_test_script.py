"""scripts/test runs everything on every processor, and what a path names in one process; pytest is a fake."""

import subprocess
from pathlib import Path
from shutil import copy

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that has the script, and a Python that prints its arguments."""
    for folder in ("scripts", "tests/relay", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    copy(SCRIPTS / "test", tmp_path / "scripts")
    (tmp_path / "scripts" / "environment").write_text('root=$(cd "$(dirname "$0")/.." && pwd)\n', "utf-8")
    (tmp_path / "tests" / "relay" / "test_ids.py").touch()
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$*"\n', "utf-8")
    python.chmod(0o755)
    return tmp_path


def run_with(checkout: Path, *arguments: str) -> str:
    """What pytest is called with."""
    script = str(checkout / "scripts" / "test")
    return subprocess.run(
        [script, *arguments], check=True, capture_output=True, encoding="utf-8", timeout=60
    ).stdout


@pytest.mark.parametrize(
    "arguments", [[], ["--durations=60"], ["-k", "expiry"], ["-x", "--maxfail", "3"]], ids=" ".join
)
def test_options_alone_go_to_every_worker(checkout: Path, arguments: list[str]) -> None:
    called_with = run_with(checkout, *arguments).split()

    assert called_with[:3] == ["-m", "pytest", "--numprocesses"]
    assert called_with[4:] == ["--dist", "loadfile", "--no-loadscope-reorder", *arguments]


@pytest.mark.parametrize(
    "arguments",
    [["tests/relay"], ["tests/relay/test_ids.py::test_it"], ["-k", "expiry", "tests/relay"]],
    ids=" ".join,
)
def test_tests_that_a_path_names_run_in_one_process(checkout: Path, arguments: list[str]) -> None:
    assert run_with(checkout, *arguments).split() == ["-m", "pytest", *arguments]
