"""Settings: where each comes from, how its value is spelled, and what is said of one that cannot be used."""

import json
import signal
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.assembly.wallet import keys_in_settings
from bridge_server.settings import server
from bridge_server.settings.settings import NOT_SET, Settings, shown_settings
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
from tests.support.command import watched_server
from tests.support.eventually import eventually
from tests.support.rows import each_row

_WEBHOOK_KEY = "whsec_" + "A" * 32
_KEYS = (f"{1:064x}", f"{2:064x}")
_URL = "postgresql://bridge:open-sesame@127.0.0.1:1/bridge"


@each_row(
    ("sources", "value", "origin"),
    [
        ("", 8080, "default"),
        ("file", 1001, "file {file}"),
        ("environment", 1002, "environment BRIDGE_PORT"),
        ("flag", 1003, "flag --port"),
        ("file environment", 1002, "environment BRIDGE_PORT"),
        ("file flag", 1003, "flag --port"),
        ("environment flag", 1003, "flag --port"),
        ("file environment flag", 1003, "flag --port"),
    ],
)
def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(
    load: Loading, sources: str, value: int, origin: str
) -> None:
    toml = "port = 1001" if "file" in sources else None
    environment = {"BRIDGE_PORT": "1002"} if "environment" in sources else {}
    flags = {"port": 1003} if "flag" in sources else {}

    loaded = load(toml, environment, **flags)

    assert (loaded.settings.port, loaded.origins["port"]) == (value, origin.format(file=load.file))


def test_every_setting_has_an_origin(load: Loading) -> None:
    assert load().origins == dict.fromkeys(Settings.model_fields, "default")


@each_row(
    ("toml", "suggestion"),
    [
        ("prot = 1", "there is no setting prot; did you mean port?"),
        ("session_tll = 1", "there is no setting session_tll; did you mean session_ttl?"),
        ("something_else_altogether = 1", "there is no setting something_else_altogether"),
        ("[relay]\nport = 1", "there is no setting relay"),
        (
            "prot = 1\nhots = 2",
            "there is no setting prot; did you mean port?\n{file}: there is no setting hots",
        ),
    ],
)
def test_unknown_names_in_the_file_are_refused_with_the_nearest_one(
    load: Loading, toml: str, suggestion: str
) -> None:
    assert load.fault(toml).startswith(f"{load.file}: {suggestion.format(file=load.file)}")


@each_row("content", ["port = ", "port = 1\nport = 2", "\x00", "[["])
def test_a_file_that_is_not_toml_is_refused(load: Loading, content: str) -> None:
    fault = load.fault(content)

    assert str(load.file) in fault
    assert "cannot be read" in fault or "is not TOML" in fault


def test_a_file_that_is_missing_or_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")

    for name in ("missing.toml", "binary.toml", "."):
        with pytest.raises(SettingsError, match=r"cannot be read|is not TOML"):
            load_settings({}, tmp_path / name)


@each_row(
    "toml",
    [
        "port = 65536", "port = -1", 'port = "http"', 'log_level = "loud"', 'log_format = "xml"',
        'public_url = "example.org"', "public_url = 5", 'public_url = ["https://example.org"]',
        "max_wait = 0", "max_wait = 301", "session_ttl = 0", "requests_per_second = 0", "webhook_timeout = 0",
        "webhook_timeout = nan", 'access_log = "perhaps"', 'trusted_proxies = ["10.0.0.0/33"]',
        'trusted_proxies = "here, there"', "trusted_proxies = 5", "trusted_proxies = true", "data_dir = 5",
        "metrics_port = 65536", 'metrics_token = ""', "metrics_token = 5",
        *(f"{name} = {value}" for name in ("requests_per_second", "account_rate_per_hour", "sweep_interval")
          for value in ("inf", "nan", "0", "-1")),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_used_names_its_setting_and_its_origin(load: Loading, toml: str) -> None:
    assert load.fault(toml).startswith(f"{toml.split(maxsplit=1)[0]} (file {load.file}): ")


def test_bad_values_of_all_origins_are_reported_together(load: Loading) -> None:
    fault = load.fault("max_wait = 0", {"BRIDGE_LOG_LEVEL": "loud"}, port=70_000)

    assert sorted(line.split(":")[0] for line in fault.splitlines()) == [
        "log_level (environment BRIDGE_LOG_LEVEL)",
        f"max_wait (file {load.file})",
        "port (flag --port)",
    ]


@each_row(
    ("values", "call_ttl"),
    [
        ({"session_ttl": 7_199, "call_ttl": 3_600, "status_ttl": 3_600}, None),
        ({"session_ttl": 7_200, "call_ttl": 3_600, "status_ttl": 3_600}, 3_600),
        ({"session_ttl": 7_201, "call_ttl": 3_600, "status_ttl": 3_600}, 3_600),
        ({"session_ttl": "2"}, 1),
        ({"session_ttl": 60}, 30),
        ({"session_ttl": 7_199}, 3_599),
        ({"session_ttl": 7_200}, 3_600),
        ({"session_ttl": "86401"}, 3_600),
        ({"session_ttl": 60, "call_ttl": 30}, None),
    ],
)
def test_a_session_outlives_its_calls_and_statuses_which_are_shortened_if_nothing_sets_them(
    load: Loading, values: dict[str, Any], call_ttl: int | None
) -> None:
    if call_ttl is None:
        assert "session_ttl must be at least call_ttl + status_ttl" in load.fault(**values)
    else:
        settings = load(**values).settings
        assert (settings.session_ttl, settings.call_ttl) == (int(values["session_ttl"]), call_ttl)
        assert settings.status_ttl == call_ttl


def test_unknown_environment_variable_is_mentioned(load: Loading) -> None:
    names = ("BRIDGE_PROT", "BRIDGE_PORT", "BRIDGEHEAD")

    loaded = load(None, {**dict.fromkeys(names, "1"), "BRIDGE_CONFIG": ""})

    assert loaded.unknown_variables == ("BRIDGE_PROT",)


@each_row(
    ("spelling", "networks"),
    [
        ("10.0.0.0/8,::1/128", ["10.0.0.0/8", "::1/128"]),
        (" 10.0.0.0/8 , ::1 ", ["10.0.0.0/8", "::1/128"]),
        ('["10.0.0.0/8", "::1/128"]', ["10.0.0.0/8", "::1/128"]),
        ("192.0.2.7", ["192.0.2.7/32"]),
        ("192.0.2.7/24", ["192.0.2.0/24"]),
        ("", []),
        ("[]", []),
    ],
)
def test_networks_are_a_list_with_or_without_brackets(
    load: Loading, spelling: str, networks: list[str]
) -> None:
    toml = f"quota_exempt = {spelling}" if spelling.startswith("[") else f'quota_exempt = "{spelling}"'
    settings = load(toml, {"BRIDGE_TRUSTED_PROXIES": spelling}).settings

    assert settings.quota_exempt == settings.trusted_proxies == tuple(map(ip_network, networks))


def test_lists_in_the_file_are_arrays(load: Loading) -> None:
    settings = load(
        'rpc_hosts = ["a.example", "b.example"]\nrpc_origins = ["http://a.example"]\n'
        'inbox_origins = ["http://a.example", "https://b.example"]'
    ).settings

    assert settings.rpc_hosts == ("a.example", "b.example")
    assert (settings.rpc_origins, len(settings.inbox_origins)) == (("http://a.example",), 2)


def test_only_loopback_is_exempt_from_quotas_and_no_proxy_is_trusted_by_default(load: Loading) -> None:
    settings = load().settings

    assert settings.quota_exempt == (ip_network("127.0.0.0/8"), ip_network("::1/128"))
    assert settings.trusted_proxies == ()


@each_row(
    ("environment", "directory"),
    [
        ({"STATE_DIRECTORY": "/state", "XDG_DATA_HOME": "/share"}, "/state"),
        ({"STATE_DIRECTORY": "/state:/other"}, "/state"),
        ({"XDG_DATA_HOME": "/share"}, "/share/bridge-server"),
        ({"XDG_DATA_HOME": ""}, "/home/somebody/.local/share/bridge-server"),
        ({"BRIDGE_DATA_DIR": "/named", "STATE_DIRECTORY": "/state"}, "/named"),
    ],
)
def test_data_lives_where_the_service_manager_the_desktop_or_the_home_says(
    load: Loading, environment: dict[str, str], directory: str
) -> None:
    assert load(None, {"HOME": "/home/somebody", **environment}).settings.data_dir == Path(directory)


@each_row("directory", [":memory:", "/data/:memory:"])
def test_a_database_in_memory_is_refused_with_what_to_do_instead(load: Loading, directory: str) -> None:
    fault = load.fault(data_dir=directory)

    assert fault.startswith("data_dir (flag --data-dir)")
    assert "temporary directory" in fault.partition("mktemp")[0]


def test_a_public_url_loses_its_last_slash(load: Loading) -> None:
    assert load(public_url="https://example.org/").settings.public_url == "https://example.org"


@each_row("secret", ["secret", "whsec_", "whsec_????", "whsec_" + "A" * 30, ""])
def test_a_malformed_webhook_secret_is_refused_and_never_repeated(load: Loading, secret: str) -> None:
    fault = load.fault(f'webhook_secret = "{secret}"')

    assert fault.startswith("webhook_secret (file ")
    assert len(secret) < 7 or secret not in fault


def test_a_webhook_secret_of_24_bytes_is_accepted(load: Loading) -> None:
    loaded = load(f'webhook_secret = "{_WEBHOOK_KEY}"')

    assert loaded.settings.webhook_secret is not None
    assert _WEBHOOK_KEY not in repr(loaded)


@each_row("name", ["admin_token", "metrics_token"])
def test_a_token_is_taken_without_the_space_around_it(load: Loading, name: str) -> None:
    token = getattr(load(**{name: " of the operator\n"}).settings, name)

    assert token.get_secret_value() == "of the operator"
    assert "must not be empty" in load.fault(**{name: " \n"})


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


def test_a_setting_that_must_have_a_value_does_not_take_none() -> None:
    for name in ("host", "data_dir"):
        assert "none" in str(getattr(load_settings({}, None, {name: "none"}).settings, name))
    for name in ("port", "log_level", "dev_accounts"):
        with pytest.raises(SettingsError, match=name):
            load_settings({}, None, {name: "none"})


def test_output_of_config_check_can_be_read_as_configuration(load: Loading) -> None:
    loaded = load()
    optional = [name for name, value in loaded.settings if value in (None, (), "")]

    again = load("".join(f'{name} = "{NOT_SET}"\n' for name in optional))

    assert again.settings == loaded.settings
    assert len(optional) > 20


@each_row(
    ("toml", "count"),
    [
        (f'["{_KEYS[0]}", "0x{_KEYS[1]}"]', 2),
        (f'["{_KEYS[0]}"]', 1),
        ("[]", 0),
        (f'"{_KEYS[0]}, {_KEYS[1]}"', 2),
    ],
)
def test_keys_in_the_file_are_an_array_or_a_string(load: Loading, toml: str, count: int) -> None:
    assert len(keys_in_settings(load(f"private_keys = {toml}").settings)) == count


@each_row("toml", ["[5]", '["open-sesame"]', '[["open-sesame"]]'])
def test_malformed_keys_are_refused_and_not_repeated(load: Loading, toml: str) -> None:
    fault = load.fault(f"private_keys = {toml}")

    assert "private_keys" in fault
    assert "open-sesame" not in fault


@each_row(
    ("values", "guarded"),
    [
        ({"metrics_port": 9}, False),
        ({"metrics_port": 9, "host": "::1"}, False),
        ({"metrics_port": 9, "host": "0.0.0.0", "metrics_token": "open-sesame"}, True),
        ({"host": "0.0.0.0"}, False),
    ],
)
def test_metrics_on_a_port_that_others_reach_are_for_the_bearer_of_a_token(
    load: Loading, values: dict[str, object], guarded: bool
) -> None:
    assert load(**values).settings.metrics_are_guarded is guarded


@each_row("host", ["0.0.0.0", "::", "192.0.2.1", "bridge.example.org"])
def test_metrics_on_a_port_that_others_reach_want_a_token(load: Loading, host: str) -> None:
    fault = load.fault(metrics_port=9, host=host)

    assert fault.startswith("metrics_port: ")
    assert " set metrics_token" in fault


_SECRETS = {
    "admin_token": "of-the-operator",
    "metrics_token": "of-prometheus",
    "rpc_token": "of-the-dapp",
    "webhook_secret": _WEBHOOK_KEY,
    "node_url": "https://node.example.org/key",
    "private_keys": "0x" + "46" * 32,
    "dev_mnemonic": "legal winner thank year wave sausage worth useful legal winner thank yellow",
    "database": "postgresql://bridge:secret@db.example.org/bridge",
    "database_direct": "postgresql://bridge:secret@db.example.org/bridge",
    "vapid_private_key": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE",
}
_BESIDE = {
    "vapid_private_key": {"vapid_subject": "mailto:operator@example.org"},
    "database_direct": {"database": "postgresql://db.example.org/bridge"},
}


def test_each_secret_has_a_case_here() -> None:
    assert {name.removesuffix("_previous") for name in secret_names()} == set(_SECRETS)
    assert set(FILES_OF_SECRETS) < set(Settings.model_fields)


@each_row("name", _SECRETS)
def test_a_systemd_credential_or_the_file_that_a_variable_names_has_the_secret(
    load: Loading, tmp_path: Path, name: str
) -> None:
    file, variable = tmp_path / name, f"BRIDGE_{name.upper()}_FILE"
    file.write_text(f"{_SECRETS[name]}\n", "utf-8")
    found = {f"systemd credential {name}": {"CREDENTIALS_DIRECTORY": str(tmp_path)}}
    if name != "private_keys":  # private_keys_file is a setting
        found[f"file {file} of environment {variable}"] = {variable: str(file)}

    for origin, environment in found.items():
        loaded = load(None, environment, **_BESIDE.get(name, {}))

        assert getattr(loaded.settings, name).get_secret_value() == _SECRETS[name]
        assert (loaded.origins[name], loaded.unknown_variables) == (origin, ())
    file.unlink()


def test_the_setting_private_keys_file_keeps_its_meaning(load: Loading, tmp_path: Path) -> None:
    file = tmp_path / "private_keys_file"
    file.write_text(f"{'46' * 32} # mine\n{'47' * 32}\n", "utf-8")

    for environment in ({"BRIDGE_PRIVATE_KEYS_FILE": str(file)}, {"CREDENTIALS_DIRECTORY": str(tmp_path)}):
        settings = load(None, environment).settings

        assert (settings.private_keys_file, settings.private_keys) == (file, None)
    assert "BRIDGE_PRIVATE_KEYS_FILE" not in file_variables()


def test_the_variable_wins_over_its_credential_and_that_over_the_toml_file(
    load: Loading, tmp_path: Path
) -> None:
    for name in ("admin_token", "rpc_token"):
        (tmp_path / name).write_text("of-systemd")
    (tmp_path / "secret").write_text("of-a-file")

    settings = load(
        'admin_token = "of-toml"\nrpc_token = "of-toml"\nmetrics_token = "of-toml"',
        {"CREDENTIALS_DIRECTORY": str(tmp_path), "BRIDGE_ADMIN_TOKEN_FILE": str(tmp_path / "secret")},
    ).settings

    tokens = (settings.admin_token, settings.rpc_token, settings.metrics_token)
    assert [token.get_secret_value() for token in tokens if token] == ["of-a-file", "of-systemd", "of-toml"]


@each_row(
    ("content", "complaint"),
    [
        (None, "BRIDGE_ADMIN_TOKEN_FILE: {file} cannot be read: No such file or directory"),
        (b"\xff\xfe", "BRIDGE_ADMIN_TOKEN_FILE: {file} is no text in UTF-8"),
        (b"\n", "admin_token (file {file} of environment BRIDGE_ADMIN_TOKEN_FILE): must not be empty"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_variable(
    load: Loading, tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)

    fault = load.fault(None, {"BRIDGE_ADMIN_TOKEN_FILE": str(file)})

    assert fault.startswith(complaint.format(file=file))


def test_a_secret_and_its_file_are_not_both_given(load: Loading) -> None:
    assert load.fault(None, {"BRIDGE_RPC_TOKEN": "one", "BRIDGE_RPC_TOKEN_FILE": "/dev/null"}) == (
        "BRIDGE_RPC_TOKEN and BRIDGE_RPC_TOKEN_FILE are both set: leave one out"
    )


async def test_a_running_server_reads_the_file_again_on_sighup(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("one\n")
    variables = {"BRIDGE_ADMIN_TOKEN_FILE": str(file)}
    with watched_server(tmp_path, environment=variables) as server:
        async with aiohttp.ClientSession() as client:

            async def opens(token: str) -> bool:
                headers = {"Authorization": f"Bearer {token}"}
                async with client.get(f"{server.url}/admin/projects", headers=headers) as answer:
                    return answer.status == 200

            assert await opens("one")
            file.write_text("two\n")
            server.process.send_signal(signal.SIGHUP)
            await eventually(lambda: opens("two"))
            assert not await opens("one")


def complaint_about(**values: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        settings_of(values)
    assert "sesame" not in str(caught.value)
    return str(caught.value)


@each_row(
    "url",
    [
        "postgresql://bridge@db.example.org/bridge",
        "postgres://bridge:open-sesame@db.example.org:5433/bridge?sslmode=verify-full",
        "postgresql:///bridge?host=/run/postgresql",
        "postgresql://one.example.org:5432,two.example.org:5433/bridge?target_session_attrs=read-write",
        "postgresql://[::1]:5432/bridge",
        "postgresql://db.example.org/?dbname=bridge",
    ],
)
def test_urls_of_databases_that_can_be_read(url: str) -> None:
    database = settings_of({"database": url}).database

    assert database is not None
    assert database.get_secret_value() == url


@each_row(
    ("values", "reason"),
    [
        ({"database": "mysql://open-sesame@db/bridge"}, "must be the URL of a PostgreSQL database"),
        ({"database": "open-sesame"}, "must be the URL of a PostgreSQL database"),
        ({"database": "postgresql://bridge:open@sesame@db/bridge"}, "write @ as %40"),
        (
            {"database": "postgresql://bridge:open-sesame@db:port/bridge"},
            "port after the host must be a number",
        ),
        ({"database": "postgresql://bridge:open/sesame@db/bridge"}, "port after the host must be a number"),
        ({"database": "postgresql://bridge:open-sesame@db:99999/bridge"}, "from 1 to 65535"),
        ({"database": "postgresql://bridge:open-sesame@[::1/bridge"}, "cannot be read"),
        ({"database": "postgresql://bridge:open-sesame@db"}, "must name the database"),
        ({"database": "postgresql://bridge:open-sesame@db/bridge?sslmode"}, "must be name=value"),
        ({"database": _URL, "database_limit": 10**9}, "database_limit: "),
        ({"database_direct": _URL}, "database_direct: works beside database only: set database too"),
        ({"holds_wallet": False}, "holds_wallet: works beside database only"),
    ],
)
def test_settings_of_a_database_that_cannot_be_used_are_refused_without_repeating_them(
    values: Mapping[str, Any], reason: str
) -> None:
    assert reason in complaint_about(**values)


def test_a_wallet_that_other_processes_reach_says_what_it_needs() -> None:
    wallet = {"database": _URL, "host": "0.0.0.0", "node_url": "http://node:8545"}
    complaint = complaint_about(**wallet)

    assert [line.partition(":")[0] for line in complaint.splitlines()] == [
        "rpc_token", "internal_url", "trusted_proxies",
    ]  # fmt: skip
    given = {"rpc_token": "t" * 32, "trusted_proxies": ["10.0.0.0/8"]}
    assert complaint_about(**wallet, **given).startswith("internal_url: ")
    assert settings_of({**wallet, **given, "internal_url": "http://10.0.0.2:8080"}).holds_wallet
    assert settings_of({**wallet, **given, "processes": 2}).holds_wallet
    assert settings_of({**wallet, "host": "127.0.0.1"}).holds_wallet


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


def test_config_check_names_a_database_that_cannot_be_reached(
    invoke: Invoke, set_up: SetUp, tmp_path: Path
) -> None:
    set_up(database=_URL)

    result = invoke("config", "check", "--json", "--data-dir", tmp_path)

    assert result.exit_code == 2
    assert json.loads(result.stdout)["database"]["value"] == "postgresql://bridge:***@127.0.0.1:1/bridge"
    assert result.stderr.startswith(
        "bridge-server: the database postgresql://bridge:***@127.0.0.1:1/bridge cannot be reached ("
    )
