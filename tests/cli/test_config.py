"""`config check`, `config list` and `--set`: every setting, its value and where it came from."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from bridge_server.settings.settings import Settings
from tests.cli.conftest import Invoke, SetUp
from tests.support.command import watched_server
from tests.support.rows import each_row
from tests.support.rpc_client import RpcClient
from tests.support.server import reached


def checked(invoke: Invoke, *arguments: str | Path) -> dict[str, list[str]]:
    """The rows of settings that can be used."""
    result = invoke("config", "check", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}


def write(folder: Path, toml: str) -> Path:
    file = folder / "bridge.toml"
    file.write_text(toml, "utf-8")
    return file


def test_every_setting_has_its_value_and_origin(invoke: Invoke, set_up: SetUp, tmp_path: Path) -> None:
    file = write(tmp_path, 'host = "0.0.0.0"')
    set_up(max_wait=7, access_log="yes", trusted_proxies="10.0.0.0/8,::1")
    table = checked(invoke, "--config", file, "--data-dir", tmp_path)
    facts = json.loads(invoke("config", "check", "--json", "--config", file, "--data-dir", tmp_path).stdout)

    assert list(table) == list(facts) == list(Settings.model_fields)
    expected = {
        "host": ['"0.0.0.0"', "file", str(file)], "max_wait": ["7", "environment", "BRIDGE_MAX_WAIT"],
        "data_dir": [f'"{tmp_path}"', "flag", "--data-dir"], "port": ["8080", "default"],
        "public_url": ["none", "default"], "test": ["false", "default"],
        "quota_exempt": ['["127.0.0.0/8",', '"::1/128"]', "default"],
    }  # fmt: skip
    assert {name: table[name] for name in expected} == expected
    assert facts["max_wait"] == {"value": 7, "origin": "environment BRIDGE_MAX_WAIT"}
    assert facts["metrics_port"] == {"value": None, "origin": "default"}
    assert (facts["access_log"]["value"], facts["trusted_proxies"]["value"]) == (True, "10.0.0.0/8, ::1/128")
    set_up(config=write(tmp_path, "port = 7"))
    assert checked(invoke)["port"][0] == "7"


def test_a_toml_file_takes_the_values_as_they_are_printed(invoke: Invoke, tmp_path: Path) -> None:
    printed = invoke("config", "check", "--data-dir", tmp_path).stdout
    defaults = re.findall(r"^(\w+) +(.*?) +default$", printed, re.MULTILINE)
    given = [f"{name} = {value}" for name, value in defaults if value not in ("none", "(set)")]
    assert len(given) > 60
    checked(invoke, "--config", write(tmp_path, "\n".join(given)), "--data-dir", tmp_path)


def test_a_secret_in_a_file_is_shown_as_that_file(invoke: Invoke, set_up: SetUp, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of-the-operator")
    set_up(admin_token_file=tmp_path / "secret", port_file=8081)
    for form in ((), ("--json",)):
        shown = invoke("config", "check", *form)
        assert shown.exit_code == 0
        assert f"file {tmp_path / 'secret'} of environment BRIDGE_ADMIN_TOKEN_FILE" in shown.stdout
        assert "of-the-operator" not in shown.output
        assert "BRIDGE_PORT_FILE is set, but there is no such setting" in shown.stderr
        assert "PORT_FILE" not in shown.stdout


def test_a_faulty_value_fails_the_check_and_not_the_list(invoke: Invoke, set_up: SetUp) -> None:
    set_up(port="no number")
    listed = json.loads(invoke("config", "list", "--json").stdout)["settings"]
    lines = invoke("config", "list").stdout.splitlines()
    result = invoke("config", "check")

    assert {row["name"] for row in listed} == set(Settings.model_fields)
    port = {"name": "port", "variable": "BRIDGE_PORT", "default": 8080,
            "description": "The port to listen on; 0 picks a free one."}  # fmt: skip
    assert port in listed
    assert all(row["description"] for row in listed)
    assert lines[0].split() == ["setting", "default", "meaning"]
    assert any(line.split()[:2] == ["port", "8080"] for line in lines)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("bridge-server: port (environment BRIDGE_PORT)")


def test_the_last_set_flag_wins_over_other_sources(invoke: Invoke, set_up: SetUp, tmp_path: Path) -> None:
    set_up(max_wait=7)
    file = write(tmp_path, "max_wait = 8\nmax_devices = 9")
    flags = ("max_wait=4", "max_wait=5", "rpc-origins=http://a.example", "public_url=https://a.example/?a=b")
    table = checked(invoke, "--config", file, *(word for flag in flags for word in ("--set", flag)))
    assert table["max_wait"] == ["5", "flag", "--set", "max_wait"]
    assert table["rpc_origins"] == ['["http://a.example"]', "flag", "--set", "rpc_origins"]
    assert table["public_url"][0] == '"https://a.example/?a=b"'
    assert table["max_devices"][0] == "9"


@each_row(
    ("arguments", "line"),
    [
        (("--set", "max_weit=5"), "--set: there is no setting max_weit; did you mean max_wait?"),
        (("--set", "max_wait"), "--set max_wait: write NAME=VALUE, as in --set max_wait=10"),
        (("--set", "port=1", "--port", "2"), "--set: port is also given by its own flag"),
        (("--set", "access_log=perhaps"), "access_log (flag --set access_log): "),
        (("--rpc-origins", "nowhere"), "rpc_origins (flag --rpc-origins): "),
    ],
)
def test_unusable_set_flag_is_one_line_and_exit_code_2(
    invoke: Invoke, tmp_path: Path, arguments: Sequence[str], line: str
) -> None:
    result = invoke("serve", "--data-dir", tmp_path / "data", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (printed,) = result.stderr.splitlines()
    assert printed.startswith(f"bridge-server: {line}")
    assert not (tmp_path / "data").exists()


async def test_a_server_takes_the_flags(tmp_path: Path) -> None:
    flags = ("--dev-accounts", "--chain-id", "5", "--rpc-origins", "http://localhost:3000, https://a.example")
    with watched_server(tmp_path, *flags, "--set", "call_ttl=60") as server:
        async with reached(server) as running:
            assert await RpcClient(running, {"Origin": "http://localhost:3000"}).call("eth_chainId") == "0x5"
