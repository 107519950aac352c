"""What a fixture adds to a test: a server of its own, or the one of all tests, emptied."""

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from xml.etree import ElementTree

from plan import Plan
from processes import MeasurementError
from report import Row, row

_FIXTURES = ("bridge", "bridge_session", "bridge_wallet", "bridge_node")
_WARM_UP = 2
"""The first tests of each kind pay for imports, and are not counted."""
_PATIENCE_SECONDS = 300

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
    empty = median(costs["empty"][_WARM_UP:])
    for name in _FIXTURES:
        added = [(each - empty) * 1_000 for each in costs[name][_WARM_UP:]]
        yield row(f"the fixture {name}", {"median_ms": median(added), "least_ms": min(added)})


def _costs_of(folder: Path, tests: str) -> dict[str, list[float]]:
    """The seconds of each test in a run of pytest, from set-up to tear-down, by its fixture."""
    folder.mkdir(exist_ok=True)
    (folder / "test_fixtures.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    report = folder / "report.xml"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:trio", "-p", "no:randomly", f"--junit-xml={report}"]
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=folder, capture_output=True, encoding="utf-8",
        timeout=_PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    if finished.returncode != 0:
        raise MeasurementError(f"the tests failed: {finished.stdout[-500:]}")
    costs = defaultdict(list)
    for case in ElementTree.parse(report).iter("testcase"):
        costs[case.attrib["name"].removeprefix("test_").partition("[")[0]].append(float(case.attrib["time"]))
    return costs
