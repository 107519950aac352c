"""What a fixture adds to a test: a server of its own, or the one of all tests, emptied."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from plan import Plan
from processes import MeasurementError
from report import Row, row

_FIXTURES = ("bridge", "bridge_session", "bridge_wallet", "bridge_node")
_WARM_UP = 2
"""The first tests of each kind pay for imports, and are not counted."""
_PATIENCE_SECONDS = 300

_CONFTEST = """
import json, time
import pytest

costs = {}

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    began, cpu = time.perf_counter(), time.process_time()
    result = yield
    costs[item.nodeid] = time.perf_counter() - began, time.process_time() - cpu
    return result

def pytest_sessionfinish(session):
    (session.config.rootpath / "costs.json").write_text(json.dumps(costs))
"""
_TEST = """
@pytest.mark.parametrize("number", range({count}))
def test_{name}({arguments}number):
    pass
"""


def measure_fixtures(plan: Plan) -> Iterator[Row]:
    """The time of a test that does nothing but have the fixture, less that of an empty test."""
    count = _WARM_UP + plan.sized(30, 100)
    tests = _TEST.format(name="empty", arguments="", count=count)
    tests += "".join(_TEST.format(name=name, arguments=f"{name}, ", count=count) for name in _FIXTURES)
    costs = _costs_of(plan.directory / "fixtures", "import pytest\n" + tests)
    empty = [median(each) for each in _of(costs, "empty")]
    for name in _FIXTURES:
        wall, cpu = _of(costs, name)
        added = [(each - empty[0]) * 1_000 for each in wall]
        figures = {
            "median_ms": median(added),
            "least_ms": min(added),
            "cpu_ms": (median(cpu) - empty[1]) * 1_000,
        }
        yield row(f"the fixture {name}", figures)


def _costs_of(folder: Path, tests: str) -> dict[str, list[float]]:
    """The seconds of each test in a run of pytest, and those of the processor, from set-up to tear-down."""
    folder.mkdir(exist_ok=True)
    (folder / "conftest.py").write_text(_CONFTEST)
    (folder / "test_fixtures.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:trio", "-p", "no:randomly"]
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=folder, capture_output=True, encoding="utf-8",
        timeout=_PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    if finished.returncode != 0:
        raise MeasurementError(f"the tests failed: {finished.stdout[-500:]}")
    costs: dict[str, list[float]] = json.loads((folder / "costs.json").read_text())
    return costs


def _of(costs: dict[str, list[float]], name: str) -> tuple[list[float], list[float]]:
    """The seconds of these tests, and those of the processor."""
    counted = [each for test, each in costs.items() if f"::test_{name}[" in test][_WARM_UP:]
    return [wall for wall, _ in counted], [cpu for _, cpu in counted]
