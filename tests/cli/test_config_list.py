"""`config list`: every setting, what it is for, and its default."""

import json

from bridge_server.settings.settings import Settings
from tests.cli.conftest import Invoke


def test_every_setting_is_listed_with_its_variable_default_and_meaning(invoke: Invoke) -> None:
    rows = json.loads(invoke("config", "list", "--json").stdout)["settings"]

    assert {row["name"] for row in rows} == set(Settings.model_fields)
    port = {"name": "port", "variable": "BRIDGE_PORT", "default": 8080,
            "description": "The port to listen on; 0 picks a free one."}  # fmt: skip
    assert port in rows
    assert all(row["description"] for row in rows)


def test_for_people_it_is_a_table(invoke: Invoke) -> None:
    lines = invoke("config", "list").stdout.splitlines()

    assert lines[0].split() == ["setting", "default", "meaning"]
    assert any(line.split()[:2] == ["port", "8080"] for line in lines)


def test_settings_that_are_not_valid_are_no_obstacle(invoke: Invoke) -> None:
    assert invoke("config", "list").exit_code == 0
