"""The walks that docs/architecture.md lists: along files that exist, short and complete."""

import ast
import re
from itertools import pairwise
from pathlib import Path

from tests.support.rows import each_row

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "bridge_server"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
MOST_FILES = 6
CALLED_BACK = ("pubsub/v2_sockets", "pubsub/v2_calls")
"""A socket gets the function that answers its calls as an argument."""


def walk_of(subject: str) -> list[str]:
    """The files of an item. A name without a folder is in the folder of the name before it."""
    (item,) = re.findall(rf"^- \*\*{re.escape(subject)}:\*\*(.*?)(?=^- |^$)", PAGE, re.MULTILINE | re.DOTALL)
    files: list[str] = []
    for name in re.findall(r"`([a-z0-9_/]+)`", item):
        folder = files[-1].rpartition("/")[0] if files else ""
        files.append(name if "/" in name else f"{folder}/{name}")
    return files


def imported_by(file: str) -> set[str]:
    """The package's modules that a file imports, as paths."""
    tree = ast.parse((PACKAGE / f"{file}.py").read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    names = {str(node.module) for node in imports}
    names |= {f"{node.module}.{alias.name}" for node in imports for alias in node.names}
    return {name.removeprefix("bridge_server.").replace(".", "/") for name in names}


SUBJECTS = re.findall(r"^- \*\*(an? .+?):\*\*", PAGE, re.MULTILINE)


@each_row("subject", SUBJECTS)
def test_every_file_of_a_walk_exists(subject: str) -> None:
    walk = walk_of(subject)

    assert walk
    assert [file for file in walk if not (PACKAGE / f"{file}.py").is_file()] == []


@each_row("subject", SUBJECTS)
def test_a_walk_is_short_and_goes_from_the_route_to_the_rows(subject: str) -> None:
    walk = walk_of(subject)

    assert walk[0].endswith("/routes")
    assert walk[-1].endswith(("store", "wallet/signing"))
    assert len(walk) <= MOST_FILES


@each_row("subject", SUBJECTS)
def test_each_file_of_a_walk_knows_the_next(subject: str) -> None:
    for above, below in pairwise(walk_of(subject)):
        if (above, below) != CALLED_BACK:
            assert below in imported_by(above), (above, below)
