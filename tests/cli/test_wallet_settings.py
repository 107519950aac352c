"""The wallet's settings: what each may be, what is refused before anything starts, and what is never told."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from bridge_server.assembly.wallet import keys_in_settings
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import SettingsError, load_settings
from tests.cli.conftest import Invoke
from tests.support.command import WatchedServer, watched_server
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS

ConfigFile = Callable[[str], Path]

KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
NODE_URL = "https://user:open-sesame@node.example.org/v3/key-in-the-path"
SECRETS = {
    "BRIDGE_NODE_URL": NODE_URL,
    "BRIDGE_PRIVATE_KEYS": KEY,
    "BRIDGE_RPC_TOKEN": "speak-friend",
    "BRIDGE_DEV_MNEMONIC": WORDS,
}
SECRET_PARTS = ("open-sesame", "key-in-the-path", KEY[:8], KEY[-8:], "speak-friend", "sausage", "yellow")


def settings(**values: Any) -> Settings:
    """These settings, as flags."""
    return load_settings(values, None).settings


def complaint(**values: Any) -> str:
    """What is said of settings that cannot be used."""
    with pytest.raises(SettingsError) as refused:
        load_settings(values, None)
    return str(refused.value)


@each_row("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST"])
def test_development_accounts_are_for_this_machine(host: str) -> None:
    assert settings(host=host, dev_accounts=True).dev_accounts


@each_row("host", ["0.0.0.0", "::", "", "192.0.2.1", "10.0.0.1", "2001:db8::1", "bridge.example.org"])
def test_development_accounts_are_refused_where_others_can_reach_them_unless_forced(host: str) -> None:
    told = complaint(host=host, dev_accounts=True)

    assert told.startswith("dev_accounts: everybody knows their keys")
    assert "dev_accounts_public" in told
    assert settings(host=host, dev_accounts=True, dev_accounts_public=True).dev_accounts
    assert not settings(host=host).dev_accounts


@each_row(
    ("name", "value"),
    [
        ("trusted_proxies", "127.0.0.1"),
        ("public_url", "https://bridge.example.org"),
        ("public_url", "http://192.0.2.1:8080"),
    ],
)
@each_row("token", [{}, {"rpc_token": "speak-friend"}])
def test_development_accounts_are_refused_behind_a_proxy_unless_forced(
    name: str, value: str, token: dict[str, str]
) -> None:
    told = complaint(dev_accounts=True, **{name: value}, **token)

    assert told.startswith(f"dev_accounts: everybody knows their keys, and {name} says that others")
    assert "dev_accounts_public" in told
    assert settings(dev_accounts=True, dev_accounts_public=True, **{name: value}).dev_accounts
    assert not settings(**{name: value}).dev_accounts


@each_row("url", ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:1/base"])
def test_a_public_url_of_this_machine_is_no_proxy(url: str) -> None:
    assert settings(dev_accounts=True, public_url=url).way_through_a_proxy is None


def test_a_server_with_public_development_accounts_does_not_start(invoke: Invoke, tmp_path: Path) -> None:
    refused = invoke("serve", "--host", "0.0.0.0", "--dev-accounts", "--data-dir", tmp_path / "data")

    assert (refused.exit_code, refused.stdout) == (2, "")
    [line] = refused.stderr.splitlines()
    assert line.startswith("bridge-server: dev_accounts: everybody knows their keys")
    assert not (tmp_path / "data").exists()


@each_row(
    "url",
    [
        "http://127.0.0.1:8545",
        "http://localhost:8545/",
        "https://mainnet.example.org/v3/0123456789abcdef",
        "https://user:secret@node.example.org",
        "http://[::1]:8545",
    ],
)
def test_a_node_is_named_by_its_http_endpoint(url: str) -> None:
    found = settings(node_url=url).node_url

    assert found is not None
    assert found.get_secret_value() == url


@each_row(
    ("url", "reason"),
    [
        ("ws://node.example.org", "asked over HTTP"),
        ("WSS://node.example.org", "asked over HTTP"),
        ("node.example.org:8545", "must be an http or https URL"),
        ("file:///ipc", "must be an http or https URL"),
        ("http://", "must be an http or https URL"),
        ("http://[::1", "must be an http or https URL"),
        ("http://user:open-sesame", "must be an http or https URL"),
        ("http://node.example.org:0", "must be an http or https URL"),
        ("", "must be an http or https URL"),
    ],
)
def test_malformed_node_url_is_refused_and_not_repeated(url: str, reason: str) -> None:
    told = complaint(node_url=url)

    assert told.startswith("node_url (flag --node-url): ")
    assert reason in told
    assert "open-sesame" not in told


@pytest.mark.parametrize(
    ("spelled", "hosts"),
    [
        ("wallet.example.org", ("wallet.example.org",)),
        ("Wallet.Example.ORG, 192.0.2.1,[::1]", ("wallet.example.org", "192.0.2.1", "[::1]")),
        ('["a.example", "b.example"]', ("a.example", "b.example")),
        ("", ()),
    ],
)
def test_host_names_are_a_list_or_separated_by_commas(
    monkeypatch: pytest.MonkeyPatch, spelled: str, hosts: tuple[str, ...]
) -> None:
    monkeypatch.setenv("BRIDGE_RPC_HOSTS", spelled)

    assert load_settings({}, None).settings.rpc_hosts == hosts


@each_row(
    "host", ["https://wallet.example.org", "wallet.example.org:8080", "wallet/rpc", "a b", "[::1]:80", "*"]
)
def test_a_host_name_is_nothing_more(host: str) -> None:
    assert f"{host} is no host name" in complaint(rpc_hosts=host)


@each_row("chain_id", [1, 31337, 2**63 - 1])
def test_a_chain_has_a_number(chain_id: int) -> None:
    assert settings(chain_id=chain_id).chain_id == chain_id


@each_row("chain_id", [0, -1, 2**63, "0x1", "mainnet", "1e3", ""])
def test_malformed_chain_id_is_refused(chain_id: Any) -> None:
    assert complaint(chain_id=chain_id).startswith("chain_id (flag --chain-id): ")


@each_row(
    ("name", "value", "reason"),
    [
        ("rpc_token", " ", "must not be empty"),
        ("private_keys", "", "must not be empty"),
        ("private_keys", f"{KEY},sausage", "key 2 of 2: a private key has 64 hexadecimal digits"),
        ("private_keys", "00" * 32, "key 1 of 1: "),
        ("dev_mnemonic", f"{WORDS} winner", "24 words, and this one 13"),
        ("dev_mnemonic", WORDS.replace("yellow", "legal"), "dev_mnemonic: "),
        ("dev_account_count", 0, "greater than or equal to 1"),
        ("approve", "ask", "'auto' or 'queue'"),
        ("approval_timeout", 0, "greater than 0"),
        ("typed_data_scheme", "eip1271", "'eip712' or 'eip191'"),
        ("rpc_origins", "https://app.example.org/page", "must be an origin"),
        ("rpc_origins", "app.example.org", "must be an origin and nothing more, such as https://app.ex"),
        ("rpc_origins", "null", "must be an origin and nothing more, such as https://app.example.org"),
    ],
)
def test_unusable_value_is_refused_with_the_reason(name: str, value: Any, reason: str) -> None:
    told = complaint(**{name: value})

    assert told.startswith(name)
    assert reason in told
    assert not any(secret in told for secret in SECRET_PARTS)


def test_keys_come_from_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# the treasury\n0x{KEY}\n")

    [key] = keys_in_settings(settings(private_keys_file=str(file)))

    assert key.address == "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_secrets_are_said_to_be_set_and_nothing_more(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)

    result = invoke("config", "check", *form)

    assert result.exit_code == 0
    assert result.stdout.count("(set)") == len(SECRETS)
    assert not any(secret in result.output for secret in SECRET_PARTS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedServer]:
    """A wallet with development accounts, and a node that does not answer."""
    flags = ("--dev-accounts", "--node-url", "http://user:open-sesame@127.0.0.1:9/key-in-the-path")
    with watched_server(tmp_path_factory.mktemp("wallet"), *flags) as server:
        yield server


def rpc(server: WatchedServer, method: str) -> Any:
    """The response object."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode()
    request = Request(server.facts["rpc_url"], body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as response:
        return json.loads(response.read())


def test_the_wallet_answers_where_the_ready_file_says(server: WatchedServer) -> None:
    assert server.facts["rpc_url"] == f"{server.url}/rpc"
    assert rpc(server, "eth_accounts")["result"][0] == DEVELOPMENT_ADDRESS


def test_keys_that_everybody_knows_are_warned_of(server: WatchedServer) -> None:
    first = server.log()[0]

    assert (first["level"], first["event"]) == ("warning", "development_accounts")
    assert "never send them anything of value" in first["advice"]


def test_keys_key_files_and_a_node_make_a_wallet(tmp_path: Path) -> None:
    (tmp_path / "keystore").mkdir()

    assert not settings(data_dir=tmp_path / "none").has_wallet
    assert settings(data_dir=tmp_path).has_wallet
    for one in ({"private_keys": KEY}, {"node_url": NODE_URL}, {"dev_accounts": True}):
        assert settings(data_dir=tmp_path / "none", **one).has_wallet


BEHIND_A_PROXY = {"BRIDGE_PUBLIC_URL": "https://bridge.example.org"}


@pytest.mark.parametrize(
    ("environment", "events"),
    [
        ({**BEHIND_A_PROXY, "BRIDGE_PRIVATE_KEYS": KEY}, ["wallet_without_token"]),
        ({"BRIDGE_TRUSTED_PROXIES": "127.0.0.1", "BRIDGE_PRIVATE_KEYS": KEY}, ["wallet_without_token"]),
        ({**BEHIND_A_PROXY, "BRIDGE_PRIVATE_KEYS": KEY, "BRIDGE_RPC_TOKEN": "speak-friend"}, []),
        ({"BRIDGE_PRIVATE_KEYS": KEY}, []),
        (BEHIND_A_PROXY, []),
    ],
)
def test_a_wallet_behind_a_proxy_and_without_a_token_is_warned_of(
    tmp_path: Path, environment: dict[str, str], events: list[str]
) -> None:
    with watched_server(tmp_path, environment=environment) as server:
        logged = server.said()

    assert [line["event"] for line in logged] == events
    assert all(line["level"] == "warning" and "set rpc_token" in line["advice"] for line in logged)


def test_key_in_the_node_url_is_never_printed(server: WatchedServer) -> None:
    error = rpc(server, "eth_blockNumber")["error"]

    assert error["code"] == 4900
    told = f"{error} {server.log()} {server.out_file.read_text()}"
    assert not any(secret in told for secret in SECRET_PARTS)
