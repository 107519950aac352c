"""Tests on PostgreSQL are skipped without its server programs, and for no other reason where that matters."""

import pytest

from tests.support.postgres_skips import VARIABLE

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
    pytester.makeconftest("from tests.support.postgres_skips import pytest_runtest_makereport\n")
    pytester.makepyfile(TESTS.format(reason=reason))

    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(**outcomes)
