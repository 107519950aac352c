"""`--set NAME=VALUE`, and the flags that have a name of their own: any setting, for one start."""

from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.cli.conftest import Invoke
from tests.support.command import run_command, watched_server
from tests.support.rows import each_row


def rows(out: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in out.splitlines()}


def test_set_flag_wins_over_environment_and_file(
    invoke: Invoke, config_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGE_MAX_WAIT", "7")
    file = config_file("max_wait = 8\nmax_devices = 9")

    result = invoke(
        "config", "check", "--config", file, "--set", "max_wait=5", "--set", "rpc-origins=http://a.example"
    )

    table = rows(result.stdout)
    assert table["max_wait"] == ["5", "flag", "--set", "max_wait"]
    assert table["rpc_origins"] == ['["http://a.example"]', "flag", "--set", "rpc_origins"]
    assert table["max_devices"][0] == "9"


def test_later_set_flag_wins_and_its_value_may_have_equals_signs(invoke: Invoke) -> None:
    url = "https://example.org/?a=b"

    result = invoke(
        "config", "check", "--set", "max_wait=5", "--set", "max_wait=6", "--set", f"public_url={url}"
    )

    assert (rows(result.stdout)["max_wait"][0], rows(result.stdout)["public_url"][0]) == ("6", f'"{url}"')


@each_row(
    ("arguments", "line"),
    [
        (("--set", "max_weit=5"), "--set: there is no setting max_weit; did you mean max_wait?"),
        (("--set", "max_wait"), "--set max_wait: write NAME=VALUE, as in --set max_wait=10"),
        (("--set", "=5"), "--set =5: write NAME=VALUE, as in --set max_wait=10"),
        (("--set", "port=1", "--port", "2"), "--set: port is also given by its own flag"),
        (("--set", "access_log=perhaps"), "access_log (flag --set access_log): "),
        (("--chain-id", "one"), "chain_id (flag --chain-id): "),
        (("--rpc-origins", "nowhere"), "rpc_origins (flag --rpc-origins): "),
    ],
)
def test_unusable_set_flag_is_one_line_and_exit_code_2(
    invoke: Invoke, tmp_path: Path, arguments: tuple[str, ...], line: str
) -> None:
    result = invoke("serve", "--data-dir", tmp_path / "data", *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    (printed,) = result.stderr.splitlines()
    assert printed.startswith(f"bridge-server: {line}")
    assert not (tmp_path / "data").exists()


def test_unusable_set_flag_ends_the_process(tmp_path: Path) -> None:
    finished = run_command("serve", "--data-dir", tmp_path / "data", "--set", "max_weit=5")

    assert (finished.exit_code, finished.out) == (2, "")
    assert finished.err == "bridge-server: --set: there is no setting max_weit; did you mean max_wait?\n"


def test_a_server_takes_them(tmp_path: Path) -> None:
    flags = ("--dev-accounts", "--chain-id", "5", "--rpc-origins", "http://localhost:3000, https://a.example")
    with watched_server(tmp_path, *flags, "--set", "call_ttl=60") as server:
        body = b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
        headers = {"Content-Type": "application/json", "Origin": "http://localhost:3000"}
        with urlopen(Request(f"{server.url}/rpc", body, headers), timeout=60) as answer:
            assert answer.read() == b'{"jsonrpc":"2.0","id":1,"result":"0x5"}'
