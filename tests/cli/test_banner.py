"""What a person at a terminal is told, and what a log file is not."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bridge_server.assembly.wallet import keys_for_development
from bridge_server.cli import process as module
from bridge_server.cli.server_run import banner
from bridge_server.kernel.version import VERSION
from bridge_server.settings.settings import Settings
from tests.support.command import watched_server
from tests.support.rows import each_row

URL = "http://127.0.0.1:8080"
FIRST = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
FIRST_KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"


def shown(tmp_path: Path, **settings: Any) -> str:
    return banner(URL, Settings(data_dir=tmp_path, **settings))


def line(text: str, name: str) -> str:
    (found,) = [line for line in text.splitlines() if line.startswith(f"  {name} ")]
    return found.removeprefix(f"  {name}").strip()


def test_banner_names_version_address_and_a_command_to_try(tmp_path: Path) -> None:
    text = shown(tmp_path, public_url="https://bridge.example.org")

    assert f"Bridge Server {VERSION}" in text
    assert line(text, "bridge") == "https://bridge.example.org"
    assert line(text, "0.7") == "https://bridge.example.org/compat/v0.7"
    assert line(text, "wallet") == f"{URL}/rpc"
    assert line(text, "database") == str(tmp_path / "bridge.sqlite3")
    assert line(text, "try") == f"curl -X POST {URL}/session/new"
    assert "Ctrl-C" in text
    assert "private keys" not in text


def test_accounts_for_development_are_shown_with_their_keys_and_a_warning(tmp_path: Path) -> None:
    text = shown(tmp_path, dev_accounts=True, dev_account_count=3)

    *_, first, second, third, warning = text.splitlines()
    assert first == f"  {FIRST}  {FIRST_KEY}"
    assert len({first, second, third}) == 3
    assert warning.startswith("EVERYBODY KNOWS THESE KEYS")


def test_keys_that_only_their_owner_knows_are_not_shown(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, dev_accounts=True, dev_mnemonic=WORDS, dev_account_count=1)

    text = banner(URL, settings)

    (key,) = keys_for_development(settings)
    assert text.splitlines()[-1] == f"  {key.address}"


@each_row(
    ("settings", "chain"),
    [
        ({"chain_id": 5}, "(chain 5)"),
        ({"chain_id": 5, "node_url": "http://127.0.0.1:8545"}, "(chain 5)"),
        ({"node_url": "http://127.0.0.1:8545"}, "(the node's chain)"),
        ({}, ""),
    ],
)
def test_banner_names_the_chain_if_it_is_known(tmp_path: Path, settings: dict[str, Any], chain: str) -> None:
    assert line(shown(tmp_path, **settings), "wallet") == f"{URL}/rpc {chain}".strip()


def test_a_server_on_every_address_is_shown_with_one_that_others_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_outgoing_address", lambda _: "192.0.2.7")

    assert line(shown(tmp_path, host="0.0.0.0"), "bridge") == "http://192.0.2.7:8080"
    assert line(shown(tmp_path, host="127.0.0.1"), "bridge") == URL


def test_a_machine_without_a_way_out_is_shown_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "_DOCUMENTATION_ADDRESS", dict.fromkeys(module._DOCUMENTATION_ADDRESS, "no address")
    )
    monkeypatch.setattr("socket.gethostname", lambda: "machine")

    assert line(shown(tmp_path, host="0.0.0.0"), "bridge") == "http://machine:8080"


def test_only_a_terminal_is_shown_the_banner(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    try:
        with watched_server(tmp_path, "--dev-accounts", "--host", "127.0.0.1", terminal=theirs) as server:
            text = os.read(ours, 10_000).decode()
            assert server.stop(signal.SIGTERM) == 0
    finally:
        os.close(ours)
        os.close(theirs)

    assert text.startswith(f"Bridge Server {VERSION}")
    assert server.url in text
