"""A list with nothing in it says so in words; in JSON it is a list with nothing in it."""

from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from tests.cli.operating import Operating


@pytest.fixture
def operate(invoke: Invoke, tmp_path: Path) -> Operating:
    operate = Operating(invoke, tmp_path / "data")
    operate.text("project", "create", "App", "--id", "app")
    return operate


def test_projects(operate: Operating) -> None:
    operate.text("project", "delete", "app", "--yes")

    assert operate.text("project", "list") == "there are no projects: `project create` makes one\n"
    assert operate.json("project", "list") == {"projects": []}


def test_notification_types(operate: Operating) -> None:
    assert operate.text("project", "type", "list", "app").startswith("this project has no notification types")
    assert operate.json("project", "type", "list", "app") == {"types": []}


def test_the_outbox(operate: Operating) -> None:
    assert operate.text("outbox", "list") == "the outbox is empty\n"
    assert operate.text("outbox", "list", "--dead") == "the outbox has no such message\n"
    assert operate.json("outbox", "list") == {"messages": []}


def test_subscribers(operate: Operating) -> None:
    assert operate.text("subscriber", "list", "app") == "this project has no subscribers\n"
    assert operate.text("subscriber", "list", "app", "--json") == ""
