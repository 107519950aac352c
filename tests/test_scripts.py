"""The scripts that run the tests: all of them on every processor, a path in one process, all many times."""

import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.postgres import VARIABLE
from tests.support.rows import each_row

SCRIPTS = Path(__file__).parents[1] / "scripts"


def test_forked_workers_share_the_modules_and_lose_no_result(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module has one worker and its fixtures; a worker that dies is a failure by name."""
    module = """
        import os, warnings, pytest

        @pytest.fixture(scope="module")
        def process():
            return os.getpid()

        def test_passes(process):
            assert process == os.getpid()

        def test_fails(process):
            print("printed by", __name__)
            assert process != os.getpid()

        def test_warns():
            warnings.warn("a warning")
    """
    names = [f"test_module_{number}" for number in range(4)]
    pytester.makepyfile(**dict.fromkeys(names, module))
    pytester.makepyfile(test_dies="import os\ndef test_that_dies(): os._exit(3)")
    monkeypatch.setenv("PYTHONPATH", str(SCRIPTS.parent))

    options = ("-p", "tests.support.forked_workers", "--workers", "2", "-W", "default")
    run = pytester.runpytest_subprocess(*options)

    run.assert_outcomes(passed=8, failed=5, warnings=4)
    run.stdout.fnmatch_lines_random([f"printed by {name}" for name in names])
    run.stdout.fnmatch_lines(["FAILED test_dies.py::test_that_dies - the worker ended with 3"])
    assert run.ret == pytest.ExitCode.TESTS_FAILED


# The lint that keeps tests apart from the speed of the machine, through its command line.

SCRIPT = SCRIPTS / "test_rules.py"

FAULTS = {
    "a sleep": ("await asyncio.sleep(0.05)", "sleeps"),
    "a duration": ("assert perf_counter() - started < 5", "wall's clock"),
    "a limit as an argument": ("open_client(timeout_seconds=0.3)", "limit below a second"),
    "a limit among settings": ('serve(**{"webhook_timeout": 0.2})', "limit below a second"),
    "a number that counts up": ("await eventually(lambda: len(receiver.requests) == 3)", "counts up"),
}
SOUND = {
    "a turn of the loop": "await asyncio.sleep(0)",
    "a patience": "await asyncio.wait_for(work, 60)",
    "none": "open_client(timeout_seconds=0)",
    "a pause": 'monkeypatch.setattr(web, "_FIRST_PAUSE_SECONDS", 0.01)',
    "what is to run out": "with pytest.raises(AnswerTimeoutError):\n    await dapp.approval(timeout=0.05)",
    "a number that may be passed": "await eventually(lambda: len(receiver.requests) >= 3)",
}


def checked(folder: Path, text: str) -> "subprocess.CompletedProcess[str]":
    """The findings of the lint in a folder with this one test."""
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    (folder / "test_it.py").write_text(f"async def test_it():\n{lines}", "utf-8")
    command = [sys.executable, str(SCRIPT), str(folder)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=60)


def test_a_sleep_in_javascript_is_told(tmp_path: Path) -> None:
    (tmp_path / "scene.js").write_text("await new Promise(resolve => setTimeout(resolve, 300))\n", "utf-8")

    finished = checked(tmp_path, "pass")

    assert finished.returncode == 1
    assert finished.stdout.startswith(f"{tmp_path / 'scene.js'}:1: sleeps")


@each_row(("text", "said"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_told_with_its_place_and_what_to_do(tmp_path: Path, text: str, said: str) -> None:
    finished = checked(tmp_path, text)

    assert finished.returncode == 1
    assert finished.stdout.startswith(f"{tmp_path / 'test_it.py'}:2: ")
    assert said in finished.stdout
    assert finished.stdout.count("\n") == 1


def test_what_holds_on_a_slow_machine_is_passed(tmp_path: Path) -> None:
    finished = checked(tmp_path, "\n".join(SOUND.values()))

    assert (finished.returncode, finished.stdout) == (0, "")


# Tests on PostgreSQL are skipped without its server programs, and for no other reason where that matters.

TESTS = """
import pytest

@pytest.fixture
def postgres():
    pytest.skip("{reason}")

def test_on_postgres(postgres):
    pass

def test_on_sqlite():
    pytest.skip("another reason")
"""


@pytest.mark.parametrize(
    ("reason", "is_strict", "outcomes"),
    [
        ("needs PostgreSQL's server programs", True, {"skipped": 2}),
        ("another reason", True, {"skipped": 1, "errors": 1}),
        ("another reason", False, {"skipped": 2}),
    ],
)
def test_a_skip_for_another_reason_is_a_failure(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    reason: str,
    is_strict: bool,
    outcomes: dict[str, int],
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if is_strict:
        monkeypatch.setenv(VARIABLE, "yes")
    pytester.makeconftest("from tests.support.postgres import pytest_runtest_makereport\n")
    pytester.makepyfile(TESTS.format(reason=reason))

    pytester.runpytest(
        "-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function"
    ).assert_outcomes(**outcomes)


# The locked versions: everything that setup.cfg asks for by name and version, and not where it was found.


def locked() -> dict[str, str]:
    lines = (SCRIPTS.parent / "constraints.txt").read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def requirements() -> list[Requirement]:
    setup = ConfigParser()
    setup.read(SCRIPTS.parent / "setup.cfg", "utf-8")
    texts = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    return [Requirement(line) for text in texts for line in text.split("\n") if line]


@each_row("requirement", requirements(), ids=str)
def test_every_requirement_is_locked_in_a_version_that_serves(requirement: Requirement) -> None:
    assert requirement.specifier.contains(locked()[canonicalize_name(requirement.name)])


@each_row("version", ["3.21.0", "3.24.1", "4.0.0"])
def test_the_library_that_others_pin_may_be_as_old_as_theirs(version: str) -> None:
    (requirement,) = [each for each in requirements() if each.name == "pycryptodome"]

    assert requirement.specifier.contains(version)
