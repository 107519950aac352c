"""The scripts that run the tests: all of them on every processor, a path in one process, all many times."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import copy

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.forked_workers import shuffled
from tests.support.postgres import VARIABLE
from tests.support.rows import each_row
from tests.support.waiting import until

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the script, and a Python that prints its arguments, and if PostgreSQL is left out."""
    for folder in ("scripts", "tests/relay", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("test", "test_folder"):
        copy(SCRIPTS / name, tmp_path / "scripts")
    (tmp_path / "scripts" / "environment").write_text('root=$(cd "$(dirname "$0")/.." && pwd)\n', "utf-8")
    (tmp_path / "tests" / "relay" / "test_ids.py").touch()
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$* ${WITHOUT_POSTGRES:-}"\n', "utf-8")
    python.chmod(0o755)
    return tmp_path


def run_with(checkout: Path, *arguments: str) -> str:
    """The arguments of pytest."""
    command = [str(checkout / "scripts" / "test"), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "WITHOUT_POSTGRES"}
    return subprocess.run(
        command, check=True, capture_output=True, encoding="utf-8", timeout=60, env=environment
    ).stdout


@each_row("arguments", [[], ["--durations=60"], ["-k", "expiry"], ["-x", "--maxfail", "3"]], ids=" ".join)
def test_options_alone_go_to_every_worker(checkout: Path, arguments: list[str]) -> None:
    called_with = run_with(checkout, *arguments).split()

    assert called_with[:3] == ["-m", "pytest", "--workers"]
    assert called_with[4:] == [*arguments, "yes"]


@each_row(
    "arguments",
    [["tests/relay"], ["tests/relay/test_ids.py::test_it"], ["-k", "expiry", "tests/relay"]],
    ids=" ".join,
)
def test_tests_that_a_path_names_run_in_one_process(checkout: Path, arguments: list[str]) -> None:
    assert run_with(checkout, *arguments).split() == ["-m", "pytest", *arguments]


@dataclass(frozen=True, slots=True)
class Named:
    """A test as pytest has it."""

    path: Path
    name: str
    is_long: bool = False

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        if self.is_long:
            yield pytest.mark.skipif(True, reason="`scripts/test --all` runs it").mark


def test_modules_are_shuffled_by_a_seed_and_tests_keep_their_order() -> None:
    tests = [
        Named(Path(f"test_{module}.py"), f"test_{number}") for module in range(50) for number in range(3)
    ]

    one, again, other = (shuffled(tests, seed) for seed in ("1", "1", "2"))

    assert one == again
    assert one != other
    assert sorted(map(repr, one)) == sorted(map(repr, tests))
    for order in (one, other):
        assert [each.path for each in order[::3]] == [each.path for each in order[2::3]]
        assert [each.name for each in order] == ["test_0", "test_1", "test_2"] * 50


def test_long_modules_begin_in_the_first_third() -> None:
    tests = [Named(Path(f"test_{number}.py"), "test", is_long=number % 5 == 0) for number in range(50)]

    order = shuffled(tests, "1")

    assert len(set(order)) == 50
    assert not any(each.is_long for each in order[16:])


@pytest.fixture
def flaky(tmp_path: Path) -> Path:
    """A checkout whose tests fail as `fails` says: by a shell's condition on `run`, the number of the run."""
    (tmp_path / "scripts").mkdir()
    copy(SCRIPTS / "flakes", tmp_path / "scripts")
    script = tmp_path / "scripts" / "test"
    script.write_text(
        """#!/bin/sh
        cd "$(dirname "$0")/.."
        echo "$*" >>arguments
        run=$(wc -l <arguments)
        . ./fails
        """
    )
    script.chmod(0o755)
    return tmp_path


_LOOK_FOR_BUSY = """
looks=0  # a process has its name only once it runs its program
while [ $looks -lt 200 ]; do
    ps -ww -o pid= -o args= --ppid $(ps -o ppid= -p $PPID) | grep 'while kill' >busy
    [ "$(wc -l <busy)" -lt "$(getconf _NPROCESSORS_ONLN)" ] || break
    looks=$((looks + 1))
done
exit 0
"""


def flakes(checkout: Path, fails: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run it to its end; `fails` is what each run of the tests does."""
    (checkout / "fails").write_text(fails, "utf-8")
    command = [str(checkout / "scripts" / "flakes"), *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=240)


def is_gone(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return False
    return True


def test_failures_of_many_runs_are_counted_by_test(flaky: Path) -> None:
    fails = """
    echo "FAILED tests/b.py::test_often[a-1] - assert 1 == 2"
    [ $run = 2 ] || exit 1
    echo "ERROR tests/a.py::test_once"
    exit 1
    """

    finished = flakes(flaky, fails, "3")

    table = [line.split() for line in finished.stdout.partition("by test:\n")[2].splitlines()]
    assert finished.returncode == 1
    assert table == [["3", "tests/b.py::test_often[a-1]"], ["1", "tests/a.py::test_once"]]
    assert (flaky / "arguments").read_text().split() == ["--all"] * 3


def test_every_processor_is_busy_until_the_end(flaky: Path) -> None:
    finished = flakes(flaky, _LOOK_FOR_BUSY, "1", "tests/relay", "-q")

    busy = [int(line.split()[0]) for line in (flaky / "busy").read_text().splitlines()]
    assert (finished.returncode, finished.stdout.splitlines()[-1]) == (0, "no failure in 1 runs")
    assert len(busy) == os.cpu_count()
    until(lambda: all(map(is_gone, busy)))
    assert (flaky / "arguments").read_text().split() == ["tests/relay", "-q"]


def test_a_run_that_ends_without_a_name_is_a_failure(flaky: Path) -> None:
    finished = flakes(flaky, "echo collection broke; exit 4", "1")

    assert finished.returncode == 1
    assert "collection broke" in finished.stdout
    assert "1 a run that named no test, and ended with 4" in finished.stdout


@each_row("number", ["", "0", "100", "x"])
def test_a_number_of_runs_must_be_given(flaky: Path, number: str) -> None:
    finished = flakes(flaky, "", number)

    assert (finished.returncode, finished.stdout) == (2, "")
    assert "usage: scripts/flakes N" in finished.stderr


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


def test_forked_workers_stop_at_the_first_failure_if_they_shall(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"test_module_{number}" for number in range(20)]
    pytester.makepyfile(**dict.fromkeys(names, "def test_it(): assert False"))
    monkeypatch.setenv("PYTHONPATH", str(SCRIPTS.parent))

    run = pytester.runpytest_subprocess("-p", "tests.support.forked_workers", "--workers", "2", "-x")

    run.stdout.fnmatch_lines(["*stopping after * failures*"])
    assert 1 <= run.parseoutcomes()["failed"] <= 4  # each worker had a module, and the next one


# The lint that keeps tests apart from the speed of the machine, through its command line.

SCRIPT = SCRIPTS / "test_rules.py"

FAULTS = {
    "a sleep": ("await asyncio.sleep(0.05)", "sleeps"),
    "a blocking sleep": ("time.sleep(seconds)", "sleeps"),
    "a wait that is one": ("await asyncio.wait([task], timeout=0.2)", "sleeps"),
    "a duration": ("assert perf_counter() - started < 5", "wall's clock"),
    "a patience loop of its own": ("assert time.monotonic() < deadline", "wall's clock"),
    "a limit as an argument": ("open_client(timeout_seconds=0.3)", "limit below a second"),
    "a limit by its place": ("await asyncio.wait_for(work, 0.5)", "limit below a second"),
    "a limit that is patched": ('monkeypatch.setattr(web, "_BODY_SECONDS", 0.05)', "limit below a second"),
    "a limit among settings": ('serve(**{"webhook_timeout": 0.2})', "limit below a second"),
    "a limit of PostgreSQL": ('patch.setitem(all, "lock_timeout", "50ms")', "limit below a second"),
    "a limit with a name": ("server.limits.head_seconds = 0.01", "limit below a second"),
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


def test_a_condition_is_read_where_it_is_defined(tmp_path: Path) -> None:
    defined = "async def holds():\n    return service.sent == {}\nawait eventually(holds)"

    assert checked(tmp_path, defined.format(2)).returncode == 1
    assert checked(tmp_path, defined.format(0)).returncode == 0


def test_a_row_that_is_not_needed_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "tests").mkdir()
    copy = tmp_path / "scripts" / SCRIPT.name
    copy.write_text(SCRIPT.read_text("utf-8"), "utf-8")

    finished = subprocess.run(
        [sys.executable, copy], capture_output=True, encoding="utf-8", check=False, timeout=60
    )

    assert finished.returncode == 1
    assert "support/waiting.py needs its row in the table of sleep no more" in finished.stdout


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

_LINE = re.compile(r"[a-z0-9][a-z0-9._-]*==[0-9][a-z0-9.]*")


def locked() -> dict[str, str]:
    lines = (SCRIPTS.parent / "constraints.txt").read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def requirements() -> list[Requirement]:
    setup = ConfigParser()
    setup.read(SCRIPTS.parent / "setup.cfg", "utf-8")
    texts = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    return [Requirement(line) for text in texts for line in text.split("\n") if line]


def test_a_line_has_a_name_and_a_version() -> None:
    lines = (SCRIPTS.parent / "constraints.txt").read_text("utf-8").splitlines()

    assert [line for line in lines if not line.startswith("#") and not _LINE.fullmatch(line)] == []


@each_row("requirement", requirements(), ids=str)
def test_every_requirement_is_locked_in_a_version_that_serves(requirement: Requirement) -> None:
    assert requirement.specifier.contains(locked()[canonicalize_name(requirement.name)])


@each_row("version", ["3.21.0", "3.24.1", "4.0.0"])
def test_the_library_that_others_pin_may_be_as_old_as_theirs(version: str) -> None:
    (requirement,) = [each for each in requirements() if each.name == "pycryptodome"]

    assert requirement.specifier.contains(version)
