"""The suite in docs/test.md passes as it stands."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("forked_processes")

PAGE = Path(__file__).parents[2] / "docs" / "test.md"


def test_the_suite_of_the_page_passes(project_folder: pytest.Pytester) -> None:
    (suite,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8").split("\n## ")[1], re.DOTALL)
    project_folder.makepyfile(suite)

    result = project_folder.runpytest_inprocess("-p", "no:trio")

    result.assert_outcomes(passed=suite.count("def test_"))


def test_every_fixture_is_on_the_page(project_folder: pytest.Pytester) -> None:
    shown = project_folder.runpytest_inprocess("-p", "no:trio", "--fixtures").stdout.str()

    fixtures = set(re.findall(r"^(bridge\w*) -- ", shown, re.MULTILINE))
    assert fixtures == set(re.findall(r"^- `(bridge\w*)`: ", PAGE.read_text("utf-8"), re.MULTILINE))
    assert len(fixtures) == 6
