"""Settings: where each comes from, how its value is spelled, and what is said of one that cannot be used.

White-box: the environment of the tests has each extra; one that lacks it is only pretended.
"""

import json
from fnmatch import fnmatchcase
from glob import escape
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from bridge_server.settings import server
from bridge_server.settings.settings import Settings, shown_settings
from bridge_server.settings.sources import (
    FILES_OF_SECRETS,
    SettingsError,
    file_variables,
    load_settings,
    secret_names,
    settings_of,
)
from bridge_server.storage.database import url_without_password
from tests.cli.conftest import Invoke, Loading, SetUp
from tests.support.rows import each_row

_WEBHOOK_KEY = "whsec_" + "A" * 32
_URL = "postgresql://bridge:open-sesame@127.0.0.1:1/bridge"
_KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
_WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(load: Loading) -> None:
    file, environment, flags = "port = 1001", {"BRIDGE_PORT": "1002"}, {"port": 1003}
    loaded = [load(file), load(None, environment), load(None, {}, **flags), load(file, environment, **flags)]
    by_flag = (1003, "flag --port")
    origins = [(1001, f"file {load.file}"), (1002, "environment BRIDGE_PORT"), by_flag, by_flag]
    assert [(each.settings.port, each.origins["port"]) for each in loaded] == origins


def test_bad_values_of_all_origins_are_reported_together(load: Loading, tmp_path: Path) -> None:
    fault = load.fault("max_wait = 0", {"BRIDGE_LOG_LEVEL": "loud"}, port=70_000)
    assert sorted(line.split(":")[0] for line in fault.splitlines()) == [
        "log_level (environment BRIDGE_LOG_LEVEL)", f"max_wait (file {load.file})", "port (flag --port)",
    ]  # fmt: skip
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    for name in ("missing.toml", "binary.toml", "."):
        with pytest.raises(SettingsError, match=r"cannot be read|is not TOML"):
            load_settings({}, tmp_path / name)


def networks(*texts: str) -> tuple[Any, ...]:
    return tuple(map(ip_network, texts))


Sources = tuple[str | None, dict[str, str], dict[str, Any]]


def toml(text: str) -> Sources:
    return text, {}, {}


def env(**variables: str) -> Sources:
    return None, variables, {}


def flag(**flags: Any) -> Sources:
    return None, {}, flags


_TWO_NETWORKS = networks("10.0.0.0/8", "::1/128")
_TTL = {"call_ttl": 3_600, "status_ttl": 3_600}


@each_row(
    ("sources", "values"),
    [
        (flag(), {"quota_exempt": networks("127.0.0.0/8", "::1/128"), "trusted_proxies": ()}),
        *(
            (sources, {"quota_exempt": found})
            for spelling, found in (
                ("10.0.0.0/8,::1/128", _TWO_NETWORKS),
                (" 10.0.0.0/8 , ::1 ", _TWO_NETWORKS),
                ("192.0.2.7/24", networks("192.0.2.0/24")),
                ("", ()),
            )
            for sources in (
                toml(f'quota_exempt = "{spelling}"'), env(BRIDGE_QUOTA_EXEMPT=spelling)
            )
        ),
        (toml('quota_exempt = ["10.0.0.0/8", "::1"]'), {"quota_exempt": _TWO_NETWORKS}),
        (env(BRIDGE_QUOTA_EXEMPT='["10.0.0.0/8","::1"]'), {"quota_exempt": _TWO_NETWORKS}),
        (env(BRIDGE_RPC_HOSTS="A.Example, 192.0.2.1,[::1]"),
         {"rpc_hosts": ("a.example", "192.0.2.1", "[::1]")}),
        (toml('inbox_origins = ["http://a.example", "https://b.example"]'),
         {"inbox_origins": ("http://a.example", "https://b.example")}),
        (env(STATE_DIRECTORY="/state", XDG_DATA_HOME="/share"), {"data_dir": Path("/state")}),
        (env(XDG_DATA_HOME="/share"), {"data_dir": Path("/share/bridge-server")}),
        (env(XDG_DATA_HOME="", HOME="/home/a"), {"data_dir": Path("/home/a/.local/share/bridge-server")}),
        (env(BRIDGE_DATA_DIR="/named", STATE_DIRECTORY="/state"), {"data_dir": Path("/named")}),
        (flag(public_url="https://example.org/"), {"public_url": "https://example.org"}),
        (toml(f'webhook_secret = "{_WEBHOOK_KEY}"'), {"webhook_secret": _WEBHOOK_KEY}),
        (flag(admin_token=" of the operator\n"), {"admin_token": "of the operator"}),
        (flag(session_ttl=7_200, **_TTL), {"session_ttl": 7_200, **_TTL}),
        (flag(session_ttl=7_201, **_TTL), {"session_ttl": 7_201, **_TTL}),
        # A short session shortens calls and statuses that nothing sets.
        *((flag(session_ttl=session), {"call_ttl": call, "status_ttl": call})
          for session, call in (("2", 1), (60, 30), (7_199, 3_599), (7_200, 3_600), ("86401", 3_600))),
        (flag(session_ttl=60, call_ttl=10), {"call_ttl": 10, "status_ttl": 30}),
        *((flag(**flags), {"metrics_are_guarded": False}) for flags in (
            {"metrics_port": 9}, {"metrics_port": 9, "host": "::1"}, {"host": "0.0.0.0"},
        )),
        (flag(metrics_port=9, host="0.0.0.0", metrics_token="open-sesame"), {"metrics_are_guarded": True}),
        *((flag(database=url), {"database": url}) for url in (
            "postgresql://bridge@db.example.org/bridge",
            "postgres://bridge:open-sesame@db.example.org:5433/bridge?sslmode=verify-full",
            "postgresql:///bridge?host=/run/postgresql",
            "postgresql://one.example.org:5432,two.example.org:5433/bridge?target_session_attrs=read-write",
            "postgresql://db.example.org/?dbname=bridge",
        )),
        *((flag(node_url=url), {"node_url": url}) for url in (
            "http://127.0.0.1:8545", "http://localhost:8545/", "https://mainnet.example.org/v3/0123456789abcdef",
            "https://user:secret@node.example.org", "http://[::1]:8545",
        )),
        *((flag(chain_id=number), {"chain_id": number}) for number in (1, 31337, 2**63 - 1)),
    ],
)  # fmt: skip
def test_a_value_is_read_as_it_is_spelled(load: Loading, sources: Sources, values: dict[str, object]) -> None:
    text, environment, flags = sources
    settings = load(text, environment, **flags).settings
    found = {name: getattr(settings, name) for name in values}
    assert values == {
        name: each.get_secret_value() if isinstance(each, SecretStr) else each for name, each in found.items()
    }
    assert _WEBHOOK_KEY not in repr(settings)
    assert "sesame" not in repr(settings)


_TTL_FAULT = "*session_ttl must be at least call_ttl + status_ttl*"
_NOT_REPEATED = (
    "sesame", "in-the-path", "speak-friend", "sausage", "yellow", "whsec_A", "whsec_??", _KEY[:8], _KEY[-8:],
)  # fmt: skip


@each_row(
    ("sources", "said"),
    [
        (toml("prot = 1"), "{file}: there is no setting prot; did you mean port?"),
        (toml("something_else_altogether = 1"), "{file}: there is no setting something_else_altogether"),
        (toml("[relay]\nport = 1"), "{file}: there is no setting relay*"),
        *((toml(text), "{file}: is not TOML*") for text in ("port = ", "port = 1\nport = 2", "\x00", "[[")),
        *((toml(text), text.split(maxsplit=1)[0] + " (file {file}): *") for text in (
            "port = 65536", 'port = "http"', 'log_level = "loud"', 'public_url = "example.org"',
            "public_url = 5", "max_wait = 0", "max_wait = 301", "webhook_timeout = nan",
            'access_log = "perhaps"', 'trusted_proxies = ["10.0.0.0/33"]', "trusted_proxies = 5",
            "data_dir = 5", 'metrics_token = ""', 'webhook_secret = "secret"',
            f'webhook_secret = "whsec_{"A" * 30}"', "private_keys = [5]", 'private_keys = [["open-sesame"]]',
            *(f"{name} = {value}"
              for name in ("requests_per_second", "account_rate_per_hour", "sweep_interval")
              for value in ("inf", "nan", "0", "-1")),
        )),
        *((flag(data_dir=directory), "data_dir (flag --data-dir)*temporary directory*mktemp*")
          for directory in (":memory:", "/data/:memory:")),
        (flag(session_ttl=7_199, **_TTL), _TTL_FAULT),
        (flag(session_ttl=60, call_ttl=31), _TTL_FAULT),
        (env(BRIDGE_HOST=""), "*must be an address, such as 127.0.0.1*"),
        *((flag(**{name: " \n"}), f"{name}*must not be empty*") for name in ("admin_token", "metrics_token")),
        *((flag(metrics_port=9, host=host), "metrics_port: * set metrics_token*")
          for host in ("0.0.0.0", "::", "192.0.2.1", "bridge.example.org")),
        (env(BRIDGE_RPC_TOKEN="one", BRIDGE_RPC_TOKEN_FILE="/dev/null"),
         "BRIDGE_RPC_TOKEN and BRIDGE_RPC_TOKEN_FILE are both set: leave one out"),
        # The database.
        (flag(database="mysql://open-sesame@db/bridge"), "database*must be the URL of a PostgreSQL dat*"),
        (flag(database="postgresql://bridge:open@sesame@db/bridge"), "*write @ as %40*"),
        *((flag(database=f"postgresql://bridge:open{password}/bridge"), "*port*must be a number*")
          for password in ("-sesame@db:port", "/sesame@db")),
        (flag(database="postgresql://bridge:open-sesame@db:99999/bridge"), "*from 1 to 65535*"),
        (flag(database="postgresql://bridge:open-sesame@[::1/bridge"), "*cannot be read*"),
        (flag(database="postgresql://bridge:open-sesame@db"), "*must name the database*"),
        (flag(database="postgresql://bridge:open-sesame@db/bridge?sslmode"), "*must be name=value*"),
        (flag(database=_URL, database_limit=10**9), "database_limit: *"),
        (flag(database_direct=_URL), "database_direct: works beside database only: set database too"),
        (flag(holds_wallet=False), "holds_wallet: works beside database only*"),
        # The wallet.
        *((flag(node_url=url), "node_url (flag --node-url): *asked over HTTP*")
          for url in ("ws://node.example.org", "WSS://node.example.org")),
        *((flag(node_url=url), "node_url (flag --node-url): *must be an http or https URL*") for url in (
            "node.example.org:8545", "file:///ipc", "http://", "http://[::1", "http://user:open-sesame",
            "http://node.example.org:0", "",
        )),
        *((flag(rpc_hosts=host), f"rpc_hosts*{escape(host)} is no host name*") for host in (
            "https://wallet.example.org", "wallet.example.org:8080", "wallet/rpc", "a b", "[::1]:80", "*",
        )),
        *((flag(chain_id=number), "chain_id (flag --chain-id): *")
          for number in (0, -1, 2**63, "0x1", "mainnet", "1e3", "")),
        (flag(rpc_token=" "), "rpc_token*must not be empty*"),
        (flag(private_keys=""), "private_keys*must not be empty*"),
        (toml('private_keys = ["open-sesame"]'), "private_keys*key 1 of 1: a private key has 64 hex*"),
        (flag(private_keys="00" * 32), "private_keys*key 1 of 1: *"),
        (flag(dev_mnemonic=f"{_WORDS} winner"), "dev_mnemonic*24 words, and this one 13*"),
        (flag(dev_mnemonic=_WORDS.replace("yellow", "legal")), "dev_mnemonic: *"),
        (flag(approve="ask"), "approve*'auto' or 'queue'"),
        (flag(rpc_origins="app.example.org"),
         "rpc_origins*must be an origin and nothing more, such as https://app.example.org*"),
    ],
)  # fmt: skip
def test_an_unusable_value_has_its_reason(load: Loading, sources: Sources, said: str) -> None:
    text, environment, flags = sources
    fault = load.fault(text, environment, **flags)
    assert fnmatchcase(fault, said.replace("{file}", str(load.file))), fault
    assert [secret for secret in _NOT_REPEATED if secret in fault] == []


def test_unknown_environment_variable_is_mentioned(load: Loading) -> None:
    names = ("BRIDGE_PROT", "BRIDGE_PORT", "BRIDGEHEAD")
    loaded = load(None, {**dict.fromkeys(names, "1"), "BRIDGE_CONFIG": ""})
    assert loaded.unknown_variables == ("BRIDGE_PROT",)


@each_row("none", ["none", "None", " none "])
@each_row(
    ("name", "value"),
    [
        *((name, None) for name in ("public_url", "metrics_port", "metrics_token", "chain_id", "private_keys",
                                    "keystore_dir")),
        *((name, ()) for name in ("quota_exempt", "trusted_proxies", "rpc_hosts", "inbox_origins")),
        ("apns_topic", ""),
    ],
)  # fmt: skip
def test_none_is_no_value_and_an_empty_list(load: Loading, name: str, value: object, none: str) -> None:
    for loaded in (
        load(f'{name} = "{none}"'),
        load_settings({}, None, {name: none}),
        load(None, {f"BRIDGE_{name.upper()}": none}),
    ):
        assert getattr(loaded.settings, name) == value


def test_a_credential_or_a_named_file_has_each_secret(load: Loading, tmp_path: Path) -> None:
    secrets: dict[str, tuple[str, dict[str, str]]] = {
        "admin_token": ("of-the-operator", {}),
        "metrics_token": ("of-prometheus", {}),
        "rpc_token": ("of-the-dapp", {}),
        "webhook_secret": (_WEBHOOK_KEY, {}),
        "node_url": ("https://node.example.org/key", {}),
        "private_keys": ("0x" + "46" * 32, {}),
        "dev_mnemonic": (_WORDS, {}),
        "database": (_URL, {}),
        "database_direct": (_URL, {"database": _URL}),
        "vapid_private_key": ("AQ" * 21 + "E", {"vapid_subject": "mailto:a@example.org"}),
    }
    assert {name.removesuffix("_previous") for name in secret_names()} == set(secrets)
    assert set(FILES_OF_SECRETS) < set(Settings.model_fields)
    for name, (secret, needed) in secrets.items():
        file, variable = tmp_path / name, f"BRIDGE_{name.upper()}_FILE"
        file.write_text(f"{secret}\n", "utf-8")
        found = {f"systemd credential {name}": {"CREDENTIALS_DIRECTORY": str(tmp_path)}}
        if name != "private_keys":  # private_keys_file is a setting
            found[f"file {file} of environment {variable}"] = {variable: str(file)}
        for origin, environment in found.items():
            loaded = load(None, environment, **needed)
            assert getattr(loaded.settings, name).get_secret_value() == secret
            assert (loaded.origins[name], loaded.unknown_variables) == (origin, ())
        file.unlink()


def test_the_setting_private_keys_file_keeps_its_meaning(load: Loading, tmp_path: Path) -> None:
    file = tmp_path / "private_keys_file"
    file.write_text(f"{'46' * 32} # mine\n{'47' * 32}\n", "utf-8")
    for environment in ({"BRIDGE_PRIVATE_KEYS_FILE": str(file)}, {"CREDENTIALS_DIRECTORY": str(tmp_path)}):
        settings = load(None, environment).settings
        assert (settings.private_keys_file, settings.private_keys) == (file, None)
    assert "BRIDGE_PRIVATE_KEYS_FILE" not in file_variables()


def test_the_file_of_a_variable_wins_over_a_credential(load: Loading, tmp_path: Path) -> None:
    for name in ("admin_token", "rpc_token"):
        (tmp_path / name).write_text("of-systemd")
    (tmp_path / "secret").write_text("of-a-file")
    settings = load(
        'admin_token = "of-toml"\nrpc_token = "of-toml"\nmetrics_token = "of-toml"',
        {"CREDENTIALS_DIRECTORY": str(tmp_path), "BRIDGE_ADMIN_TOKEN_FILE": str(tmp_path / "secret")},
    ).settings
    tokens = (settings.admin_token, settings.rpc_token, settings.metrics_token)
    assert [token.get_secret_value() for token in tokens if token] == ["of-a-file", "of-systemd", "of-toml"]


def test_a_file_that_cannot_be_used_is_named_with_its_variable(load: Loading, tmp_path: Path) -> None:
    file, name = tmp_path / "secret", "BRIDGE_ADMIN_TOKEN_FILE"
    missing = load.fault(None, {name: str(file)})
    file.write_bytes(b"\xff\xfe")
    binary = load.fault(None, {name: str(file)})
    file.write_bytes(b"\n")
    empty = load.fault(None, {name: str(file)})
    assert missing.startswith(f"{name}: {file} cannot be read: No such file or directory")
    assert binary.startswith(f"{name}: {file} is no text in UTF-8")
    assert empty.startswith(f"admin_token (file {file} of environment {name}): must not be empty")


def complaint_about(**values: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        settings_of(values)
    assert "sesame" not in str(caught.value)
    return str(caught.value)


def test_a_wallet_that_other_processes_reach_says_what_it_needs() -> None:
    wallet = {"database": _URL, "host": "0.0.0.0", "node_url": "http://node:8545"}
    complaint = complaint_about(**wallet)
    assert [line.partition(":")[0] for line in complaint.splitlines()] == [
        "rpc_token", "internal_url", "trusted_proxies",
    ]  # fmt: skip
    given = {"rpc_token": "t" * 32, "trusted_proxies": ["10.0.0.0/8"]}
    assert complaint_about(**wallet, **given).startswith("internal_url: ")
    reached = {**given, "internal_url": "http://10.0.0.2:8080"}
    for sound in (reached, {**given, "processes": 2}, {"host": "127.0.0.1"}):
        assert settings_of({**wallet, **sound}).holds_wallet, sound


def test_a_missing_driver_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "find_spec", lambda name: None)
    assert complaint_about(database=_URL).endswith('pip install "bridge-server[postgres]"')


def test_a_url_is_shown_without_its_password() -> None:
    settings = settings_of({"database": _URL, "database_direct": f"{_URL}?password=sesame"})
    rows = shown_settings(settings, {})
    assert rows["database"]["value"] == "postgresql://bridge:***@127.0.0.1:1/bridge"
    assert rows["database_direct"]["value"] == "postgresql://bridge:***@127.0.0.1:1/bridge?password=***"
    assert "sesame" not in repr(settings)


@given(password=st.text(st.characters(codec="ascii", exclude_characters="*"), min_size=4))
def test_no_password_is_shown_however_the_url_is_broken(password: str) -> None:
    shown = url_without_password(f"postgresql://b:{password}zz@h/d?password={password}zz")
    assert "zz" not in shown or any(each in password for each in "/?#[]\\\n\r\t&;")


def test_a_database_out_of_reach_is_named(invoke: Invoke, set_up: SetUp, tmp_path: Path) -> None:
    set_up(database=_URL)
    result = invoke("config", "check", "--json", "--data-dir", tmp_path)
    shown = _URL.replace("open-sesame", "***")
    assert (result.exit_code, json.loads(result.stdout)["database"]["value"]) == (2, shown)
    assert result.stderr.startswith(f"bridge-server: the database {shown} cannot be reached (")
