"""Settings of the wallet and of pushes: what each may be, what is refused, and what is never shown."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from bridge_server.assembly.wallet import keys_in_settings
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import load_settings
from tests.cli.conftest import Invoke, Loading, SetUp
from tests.support.command import watched_server
from tests.support.fcm_service import rsa_key
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient
from tests.support.server import reached
from tests.support.webpush_service import base64url, from_base64url

KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
BEHIND_A_PROXY = {"BRIDGE_PUBLIC_URL": "https://bridge.example.org"}
WITH_KEYS = {"BRIDGE_PRIVATE_KEYS": KEY}
OTHERS = "dev_accounts: everybody knows their keys"


def settings(**values: Any) -> Settings:
    """These settings, as flags."""
    return load_settings(values, None).settings


def test_development_accounts_are_for_this_machine() -> None:
    for place in (
        {"host": "127.1.2.3"}, {"host": "::1"}, {"host": "LOCALHOST"}, {"public_url": "http://[::1]:1/base"}
    ):  # fmt: skip
        found = settings(dev_accounts=True, **place)
        assert (found.dev_accounts, found.way_through_a_proxy) == (True, None), place


@each_row(
    ("values", "told"),
    [
        *(({"host": host}, OTHERS) for host in (
            "0.0.0.0", "::", "192.0.2.1", "10.0.0.1", "2001:db8::1", "bridge.example.org"
        )),
        *(({name: value, **token}, f"{OTHERS}, and {name} says that others")
          for name, value in (
              ("trusted_proxies", "127.0.0.1"), ("public_url", "https://bridge.example.org"),
              ("public_url", "http://192.0.2.1:8080"),
          )
          for token in ({}, {"rpc_token": "speak-friend"})),
    ],
)  # fmt: skip
def test_development_accounts_are_not_for_others(load: Loading, values: dict[str, str], told: str) -> None:
    fault = load.fault(dev_accounts=True, **values)
    assert fault.startswith(told)
    assert "dev_accounts_public" in fault
    assert settings(dev_accounts=True, dev_accounts_public=True, **values).dev_accounts
    assert not settings(**values).dev_accounts


def test_keys_key_files_and_a_node_make_a_wallet(tmp_path: Path) -> None:
    (tmp_path / "keystore").mkdir()
    file = tmp_path / "keys"
    file.write_text(f"# the treasury\n0x{KEY}\n")
    assert not settings(data_dir=tmp_path / "none").has_wallet
    assert settings(data_dir=tmp_path).has_wallet
    for one in ({"private_keys": KEY}, {"node_url": "http://127.0.0.1:9"}, {"dev_accounts": True}):
        assert settings(data_dir=tmp_path / "none", **one).has_wallet
    [key] = keys_in_settings(settings(private_keys_file=str(file)))
    assert key.address == "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"


async def test_a_wallet_answers_where_the_ready_file_says_warns_and_prints_no_key(tmp_path: Path) -> None:
    flags = ("--dev-accounts", "--node-url", "http://user:open-sesame@127.0.0.1:9/key-in-the-path")
    with watched_server(tmp_path, *flags) as server:
        async with reached(server) as running:
            accounts = await RpcClient(running).call("eth_accounts")
            error = await RpcClient(running).error("eth_blockNumber")
        first = server.log()[0]
    assert server.facts["rpc_url"] == f"{server.url}/rpc"
    assert (accounts[0], error.code) == (DEVELOPMENT_ADDRESS, 4900)
    assert (first["level"], first["event"]) == ("warning", "development_accounts")
    assert "never send them anything of value" in first["advice"]
    told = f"{error} {error.data} {server.log()} {server.out_file.read_text()}"
    assert not any(secret in told for secret in ("open-sesame", "key-in-the-path"))


@each_row(
    ("environment", "events"),
    [
        ({**BEHIND_A_PROXY, **WITH_KEYS}, ["wallet_without_token"]),
        ({**BEHIND_A_PROXY, **WITH_KEYS, "BRIDGE_RPC_TOKEN": "speak-friend"}, []),
        (WITH_KEYS, []),
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


SECRET = "c2VjcmV0LXRoYXQtbm9ib2R5LW1heS1zZWU"
PRIVATE = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
EC_PEM = ec.generate_private_key(ec.SECP256R1()).private_bytes(*PRIVATE).decode()
ACCOUNT = {
    "type": "service_account",
    "project_id": "demo-wallet",
    "private_key": rsa_key().export_key(pkcs=8).decode(),
    "client_email": "pusher@demo-wallet.iam.gserviceaccount.com",
    "token_uri": "https://oauth2.googleapis.com/token",
}
SOUND_APNS = {"apns_key_id": "ABC123DEFG", "apns_team_id": "DEF123GHIJ", "apns_topic": "com.example.wallet"}


def complaints(invoke: Invoke, **settings: object) -> list[str]:
    """The words of `config check` about settings that it must refuse."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(f"BRIDGE_{name.upper()}", str(value))
        result = invoke("config", "check")
    assert (result.exit_code, result.stdout) == (2, "")
    assert SECRET not in result.stderr
    assert "PRIVATE KEY-----\n" not in result.stderr
    return result.stderr.removeprefix("bridge-server: ").splitlines()


def test_push_settings_that_cannot_be_used_are_refused_and_each_fault_has_its_line(
    invoke: Invoke, tmp_path: Path
) -> None:
    """The rules of each value are tested in tests/push: here is that the command names the settings."""
    file, directory, missing = tmp_path / "credentials", tmp_path, tmp_path / "missing"
    pem = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"
    apns = {"apns_key": file, **SOUND_APNS}
    several = {
        "fcm_credentials": "/",
        "apns_key": "/",
        "vapid_private_key": SECRET,
        "vapid_subject": "nobody",
    }
    rows: list[tuple[str, Mapping[str, object], list[str]]] = [
        ("", {"fcm_credentials": file}, ["fcm_credentials: "]),
        (SECRET, {"fcm_credentials": file}, ["fcm_credentials: "]),
        (json.dumps({**ACCOUNT, "private_key": pem}), {"fcm_credentials": file}, ["fcm_credentials: "]),
        (SECRET, apns, ["apns_key"]),
        (pem, apns, ["apns_key"]),
        (EC_PEM, {**apns, "apns_key_id": "abc123defg"}, ["apns_key_id"]),
        (EC_PEM, {**apns, "apns_ca_file": "/nowhere/ca.pem"}, ["apns_ca_file"]),
        (EC_PEM, {**apns, "apns_environment": "staging"}, ["apns_environment"]),
        *(("", {"fcm_credentials": each}, [f"fcm_credentials: {each} cannot be read: "])
          for each in (directory, missing)),
        *(("", {**apns, "apns_key": each}, [f"apns_key: {each} cannot be read: "])
          for each in (directory, missing)),
        ("", several, list(several)),
        ("", {"vapid_subject": "mailto:you@example.org"}, ["vapid_subject"]),
        ("", SOUND_APNS, list(SOUND_APNS)),
    ]  # fmt: skip
    for content, given, named in rows:
        file.write_text(content, "ascii")
        for words, line in zip(named, complaints(invoke, **given), strict=True):
            assert words in line


def public_key_of(private_key: str) -> str:
    """Computed by another library than the server's."""
    key = ec.derive_private_key(int.from_bytes(from_base64url(private_key)), ec.SECP256R1())
    return base64url(key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))


def test_a_new_pair_of_keys_can_be_pasted(invoke: Invoke, set_up: SetUp, tmp_path: Path) -> None:
    pairs = [json.loads(invoke("keys", "vapid", "--json").stdout) for _ in range(2)]
    printed = invoke("keys", "vapid")
    named = re.findall("^BRIDGE_([A-Z_]+)=(.*)$", printed.stdout, re.MULTILINE)
    pasted = {name.lower(): value for name, value in named}
    account, key = tmp_path / "account.json", tmp_path / "AuthKey.p8"
    account.write_bytes(orjson.dumps(ACCOUNT))
    key.write_text(EC_PEM, "ascii")
    set_up(fcm_credentials=account, apns_key=key, **SOUND_APNS, **pasted)
    result = invoke("config", "check")

    for pair in pairs:
        assert pair == {"public_key": public_key_of(pair["private_key"]), "private_key": pair["private_key"]}
    assert len({pair["private_key"] for pair in pairs}) == 2
    assert (printed.exit_code, printed.stderr, result.exit_code, result.stderr) == (0, "", 0, "")
    assert pasted.keys() == {"vapid_private_key", "vapid_subject"}
    assert printed.stdout.splitlines()[-1] == public_key_of(pasted["vapid_private_key"])
    assert pasted["vapid_private_key"] not in result.stdout
    assert "PRIVATE KEY" not in result.stdout
