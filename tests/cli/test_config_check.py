"""`config check`: every setting, its value, where it came from; never a secret."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge_server.settings.settings import Settings
from tests.cli.conftest import Invoke

SECRETS = {"BRIDGE_METRICS_TOKEN": "open-sesame", "BRIDGE_WEBHOOK_SECRET": "whsec_" + "Z" * 32}


def rows(out: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in out.splitlines()}


def test_every_setting_is_listed_with_its_value_and_origin(
    invoke: Invoke, config_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = config_file('host = "0.0.0.0"')
    monkeypatch.setenv("BRIDGE_MAX_WAIT", "7")

    result = invoke("config", "check", "--config", file, "--data-dir", tmp_path)

    assert result.exit_code == 0
    table = rows(result.stdout)
    assert list(table) == list(Settings.model_fields)
    assert table["host"] == ['"0.0.0.0"', "file", str(file)]
    assert table["max_wait"] == ["7", "environment", "BRIDGE_MAX_WAIT"]
    assert table["data_dir"] == [f'"{tmp_path}"', "flag", "--data-dir"]
    assert table["port"] == ["8080", "default"]
    assert table["public_url"] == ["none", "default"]
    assert table["trusted_proxies"] == ["none", "default"]
    assert table["quota_exempt"] == ['["127.0.0.0/8",', '"::1/128"]', "default"]
    assert table["test"] == ["false", "default"]


def test_a_toml_file_takes_the_values_as_they_are_printed(
    invoke: Invoke, config_file: Callable[[str], Path], tmp_path: Path
) -> None:
    lines = invoke("config", "check", "--data-dir", tmp_path).stdout.splitlines()
    found = [re.fullmatch(r"(\w+) +(.*?) +default", line) for line in lines]
    defaults = {each[1]: each[2] for each in found if each is not None}
    given = {name: value for name, value in defaults.items() if value not in ("none", "(set)")}

    written = config_file("\n".join(f"{name} = {value}" for name, value in given.items()))

    assert len(given) > 60
    again = invoke("config", "check", "--config", written, "--data-dir", tmp_path)
    assert again.exit_code == 0, again.stderr


def test_the_file_may_be_named_by_the_environment(
    invoke: Invoke, config_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGE_CONFIG", str(config_file("port = 7")))

    result = invoke("config", "check")

    assert rows(result.stdout)["port"][0] == "7"
    assert result.stderr == ""


def test_json_has_the_facts_of_the_text(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BRIDGE_MAX_WAIT", "7")
    monkeypatch.setenv("BRIDGE_ACCESS_LOG", "yes")
    monkeypatch.setenv("BRIDGE_TRUSTED_PROXIES", "10.0.0.0/8,::1")

    result = invoke("config", "check", "--json", "--data-dir", tmp_path)

    facts = json.loads(result.stdout)
    assert list(facts) == list(Settings.model_fields)
    assert facts["max_wait"] == {"value": 7, "origin": "environment BRIDGE_MAX_WAIT"}
    assert facts["access_log"]["value"] is True
    assert facts["metrics_port"] == {"value": None, "origin": "default"}
    assert facts["data_dir"] == {"value": str(tmp_path), "origin": "flag --data-dir"}
    assert facts["trusted_proxies"]["value"] == "10.0.0.0/8, ::1/128"


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_secrets_are_said_to_be_set_and_nothing_more(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)

    result = invoke("config", "check", *form)

    assert result.exit_code == 0
    assert result.stdout.count("(set)") == 2
    assert not any(secret in result.output for secret in SECRETS.values())


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_unknown_environment_variable_is_mentioned(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    monkeypatch.setenv("BRIDGE_PROT", "1")

    result = invoke("config", "check", *form)

    assert result.exit_code == 0
    assert "BRIDGE_PROT" in result.stderr
    assert "PROT" not in result.stdout


@pytest.mark.parametrize(
    ("name", "value"), [("BRIDGE_PORT", "65536"), ("BRIDGE_WEBHOOK_SECRET", "not-a-secret-of-that-kind")]
)
def test_a_setting_that_cannot_be_used_fails_with_exit_code_2_and_one_line(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    result = invoke("config", "check")

    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("bridge-server: ")
    assert name in line
