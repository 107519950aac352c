"""The examples of docs/test.md, by the file names in their first lines."""

import re

from tests.support.node_project import ROOT

_BLOCK = re.compile(r"```(?:js|html)\n(?://|<!--) ([\w.-]+)(?: -->)?\n(.*?)```", re.DOTALL)


def section(title: str) -> str:
    """The text of one section of the page."""
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", page(), re.DOTALL | re.MULTILINE)
    return str(text)


def page() -> str:
    """The whole page."""
    return (ROOT / "docs" / "test.md").read_text("utf-8")


def files_of(title: str) -> dict[str, str]:
    """The files that a section shows."""
    return dict(_BLOCK.findall(section(title)))
