"""The walks that docs/architecture.md lists: along files that exist, short and complete."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "bridge_server"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
MOST_FILES = 6

HANDED = "wallet/rpc/method_table"
"""The handlers get the methods as such tables, and import none of them."""


def walk_of(subject: str) -> list[str]:
    """The files of an item. A name without a folder is in the folder of the name before it."""
    (item,) = re.findall(rf"^- \*\*{re.escape(subject)}:\*\*(.*?)(?=^- |^$)", PAGE, re.MULTILINE | re.DOTALL)
    files: list[str] = []
    for name in re.findall(r"`([a-z_/]+)`", item):
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


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_file_of_a_walk_exists(subject: str) -> None:
    walk = walk_of(subject)

    assert walk
    assert [file for file in walk if not (PACKAGE / f"{file}.py").is_file()] == []


@pytest.mark.parametrize(
    ("subject", "last"),
    [
        ("a session id", "relay/sql"),
        ("an account that is notified", "notify/sql"),
        ("a typed-data message", "wallet/audit_file"),
        ("a transaction", "wallet/transactions/sql"),
    ],
)
def test_a_walk_from_the_route_to_the_rows_has_at_most_six_files(subject: str, last: str) -> None:
    walk = walk_of(subject)

    assert walk[0].endswith("/routes")
    assert walk[-1] == last
    assert len(walk) <= MOST_FILES


@pytest.mark.parametrize("subject", ["an account that is notified", "a typed-data message", "a transaction"])
def test_each_file_of_a_walk_knows_the_next(subject: str) -> None:
    walk = [file for file in walk_of(subject) if not file.endswith("/wire")]

    for above, below in pairwise(walk):
        if above == "wallet/rpc/handlers":
            assert HANDED in imported_by(above) & imported_by(below)
        else:
            assert below in imported_by(above), (above, below)


def test_the_wire_of_a_typed_data_message_is_called_by_its_method() -> None:
    assert "wallet/rpc/wire" in imported_by("wallet/rpc/methods")


def test_a_topic_of_generation_2_walks_from_its_frame_to_the_rows_through_six_files() -> None:
    walk = walk_of("a topic of generation 2.x")
    frame = walk[walk.index("pubsub/irn/socket") :]

    assert walk[0] == "pubsub/routes"
    assert frame[-1] == "pubsub/irn/sql"
    assert len(frame) <= MOST_FILES
    for above, below in pairwise(frame[1:]):
        assert below in imported_by(above), (above, below)
