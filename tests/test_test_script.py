"""The scripts that run the tests: all of them on every processor, a path in one process, all many times."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import copy

import pytest

from tests.support.eventually import until
from tests.support.rows import each_row
from tests.support.shuffled import shuffled

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that has the script, and a Python that prints its arguments."""
    for folder in ("scripts", "tests/relay", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("test", "test_folder"):
        copy(SCRIPTS / name, tmp_path / "scripts")
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


@each_row("arguments", [[], ["--durations=60"], ["-k", "expiry"], ["-x", "--maxfail", "3"]], ids=" ".join)
def test_options_alone_go_to_every_worker(checkout: Path, arguments: list[str]) -> None:
    called_with = run_with(checkout, *arguments).split()

    assert called_with[:3] == ["-m", "pytest", "--workers"]
    assert called_with[4:] == arguments


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


def test_long_modules_begin_in_the_first_half() -> None:
    tests = [Named(Path(f"test_{number}.py"), "test", is_long=number % 5 == 0) for number in range(50)]

    order = shuffled(tests, "1")

    assert len(set(order)) == 50
    assert not any(each.is_long for each in order[25:])


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
