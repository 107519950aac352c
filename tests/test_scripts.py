"""The scripts: those that run the tests, the lint of tests, the locked versions, and the benchmark."""

import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from runpy import run_path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.postgres import VARIABLE
from tests.support.rows import each_row

SCRIPTS = Path(__file__).parents[1] / "scripts"


def test_forked_workers_lose_no_result(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
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


# The lint that keeps tests apart from the speed of the machine and from private names.


def checked(folder: Path, text: str) -> tuple[int, str]:
    """The exit code and the findings of the lint in a folder with this one test."""
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    (folder / "test_it.py").write_text(f"async def test_it():\n{lines}", "utf-8")
    command = [sys.executable, str(SCRIPTS / "test_rules.py"), str(folder)]
    finished = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=60)
    return finished.returncode, finished.stdout


@each_row(
    ("text", "said"),
    [
        ("await asyncio.sleep(0.05)", "sleeps"),
        ("assert perf_counter() - started < 5", "wall's clock"),
        ("open_client(timeout_seconds=0.3)", "limit below a second"),
        ('serve(**{"webhook_timeout": 0.2})', "limit below a second"),
        ('serve(**{"BRIDGE_STOP_SECONDS": "0.1"})', "limit below a second"),
        ('serve("BRIDGE_STOP_SECONDS=0.1")', "limit below a second"),
        ('serve("--stop-seconds 0.1")', "limit below a second"),
        ('monkeypatch.setenv("BRIDGE_STOP_SECONDS", "0.1")', "limit below a second"),
        ("serve(answer_timeout_ms=300)", "limit below a second"),
        ("stop_seconds: float = 0.3", "limit below a second"),
        ("stop_seconds = 1 / 2", "limit below a second"),
        ("seconds = 2; await socket.receive(seconds / 10)", "limit below a second"),
        ("await socket.receive(0.3)", "limit below a second"),
        ("thread.join(0.2)", "limit below a second"),
        ("future.result(0.2)", "limit below a second"),
        ("process.wait(0.2)", "sleeps"),
        ("select.select([pipe], [], [], 0.2)", "limit below a second"),
        ("await client.get(url, timeout=ClientTimeout(total=0.3))", "limit below a second"),
        ("async with asyncio.timeout(delay=0.2): pass", "limit below a second"),
        ("async with asyncio.timeout_at(loop.time() + 0.2): pass", "limit below a second"),
        ("assert time.time() < deadline", "wall's clock"),
        ("assert time_ns() < deadline", "wall's clock"),
        ("assert loop.time() - started < 5", "wall's clock"),
        ("await eventually(lambda: len(receiver.requests) == 3)", "counts up"),
        ("assert not outbox.dispatcher._lanes", "is private"),
        ('monkeypatch.setattr("bridge_server.outbox.dispatcher._PAGE", 7)', "is private"),
        ('monkeypatch.setattr("bridge_server.outbox.dispatcher.PAGE", 7)', "is private"),
        ("from bridge_server.cli.outbox import _cell", "is private"),
    ],
)
def test_a_fault_is_told_with_its_place_and_what_to_do(tmp_path: Path, text: str, said: str) -> None:
    code, findings = checked(tmp_path, text)

    assert code == 1
    assert findings.startswith(f"{tmp_path / 'test_it.py'}:2: ")
    assert said in findings
    assert findings.count("\n") == 1


def test_what_holds_on_a_slow_machine_is_passed_and_a_sleep_in_javascript_is_told(tmp_path: Path) -> None:
    sound = """
await asyncio.sleep(0)
await asyncio.wait_for(work, 60)
open_client(timeout_seconds=0)
open_client(pause_seconds=0.01)
serve(delay_ms=20, answer_timeout_ms=60_000)
seconds = 60; await socket.receive(seconds / 10)
print(", ".join(names), time.time(), select.select([pipe], [], []), "BRIDGE_STOP_SECONDS=60")
with pytest.raises(AnswerTimeoutError):
    await dapp.approval(timeout=0.05)
await eventually(lambda: len(receiver.requests) >= 3)
"""
    assert checked(tmp_path, sound) == (0, "")

    (tmp_path / "scene.js").write_text("await new Promise(resolve => setTimeout(resolve, 300))\n", "utf-8")
    code, findings = checked(tmp_path, sound)
    assert code == 1
    assert findings.startswith(f"{tmp_path / 'scene.js'}:1: sleeps")


# Tests on PostgreSQL are skipped without its server programs, and for no other reason where that matters.


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
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.fixture
        def postgres():
            pytest.skip("{reason}")

        def test_on_postgres(postgres):
            pass

        def test_on_sqlite():
            pytest.skip("another reason")
        """
    )

    options = ("-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function")
    pytester.runpytest(*options).assert_outcomes(**outcomes)


# The locked versions: everything that setup.cfg asks for by name and version, and not where it was found.


def test_every_requirement_is_locked_in_a_version_that_serves() -> None:
    setup = ConfigParser()
    setup.read(SCRIPTS.parent / "setup.cfg", "utf-8")
    texts = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    requirements = [Requirement(line) for text in texts for line in text.split("\n") if line]
    lines = (SCRIPTS.parent / "constraints.txt").read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    locked = {canonicalize_name(name): version for name, version in pairs}

    for requirement in requirements:
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement
    (shared,) = [each for each in requirements if each.name == "pycryptodome"]
    for version in ("3.21.0", "3.24.1", "4.0.0"):
        assert shared.specifier.contains(version), "others pin versions as old as this"


# The benchmark compares with figures that were saved.


def bench(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The benchmark of instructions where no valgrind is found, so that each run ends at once."""
    command = [sys.executable, str(SCRIPTS / "bench.py"), "--quick", "--only", "instructions", *options]
    environment = {**os.environ, "PATH": str(folder)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=60
    )


@each_row(
    ("options", "runs"),
    [
        ([], 1),
        (["--against", "saved"], 3),
        (["--save", "new"], 3),
        (["--against", "saved", "--runs", "2"], 2),
    ],
)
def test_a_comparison_is_of_three_runs_unless_runs_are_given(
    tmp_path: Path, options: list[str], runs: int
) -> None:
    (tmp_path / "saved").write_text('{"get-204": {"real_thousand": [148.0]}}')

    assert bench(tmp_path, *options).stderr.count("measuring instructions") == runs


@each_row("text", [None, "not JSON", '{"get-204": 148.0}'])
def test_a_file_of_figures_that_cannot_be_read_is_told_before_anything_is_measured(
    tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "saved").write_text(text)

    finished = bench(tmp_path, "--against", "saved")

    assert finished.returncode == 2
    assert "--against: saved cannot be read" in finished.stderr
    assert "measuring" not in finished.stderr


def test_a_figure_that_was_not_saved_is_new_and_only_a_higher_median_is_worse() -> None:
    report = run_path(str(SCRIPTS / "bench" / "report.py"))
    saved = {"get-204": {"bare_thousand": 1.0, "real_thousand": 100.0, "exempt_thousand": 100.0}}
    figures = {
        "bare_thousand": [9.0],
        "real_thousand": [104.0, 106.0, 300.0],
        "exempt_thousand": [104.0, 90.0, 300.0],
        "watched_thousand": [7.0],
    }
    rows = [report["Row"]("get-204", figures), report["Row"]("get-200", {"real_thousand": [1.0]})]

    worse, new = report["compared"](saved, rows)

    assert worse == ["get-204 is worse: real_thousand 106.0, before 100.0"]
    assert new == [
        "get-204 is new: watched_thousand 7.0, which the file lacks",
        "get-200 is new: real_thousand 1.0, which the file lacks",
    ]
