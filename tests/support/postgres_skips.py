"""Where PostgreSQL's server programs are, nothing else is a reason to skip a test that needs them."""

import os
from collections.abc import Generator

import pytest

VARIABLE = "STRICT_POSTGRES"
"""Set in the environment, it makes such a skip a failure."""

_MISSING_PROGRAMS = "needs PostgreSQL's server programs"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a skip as a failure, unless the programs are missing."""
    report = yield
    if VARIABLE in os.environ and report.skipped and call.excinfo is not None and _needs_postgres(item):
        reason = str(call.excinfo.value)
        if not reason.startswith(_MISSING_PROGRAMS):
            report.outcome = "failed"
            report.longrepr = f"{VARIABLE} is set, and the test was skipped: {reason}"
    return report


def _needs_postgres(item: pytest.Item) -> bool:
    is_marked = any(
        str(mark.kwargs.get("reason", "")).startswith(_MISSING_PROGRAMS)
        for mark in item.iter_markers("skipif")
    )
    return is_marked or "postgres" in getattr(item, "fixturenames", ())
