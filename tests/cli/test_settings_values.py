"""How the values of settings are spelled, and what they are when nobody says."""

from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import pytest

from bridge_server.assembly.wallet import keys_in_settings
from bridge_server.settings.settings import NOT_SET
from bridge_server.settings.sources import SettingsError, load_settings
from tests.support.rows import each_row

ConfigFile = Callable[[str], Path]

_WEBHOOK_KEY = "whsec_" + "A" * 32


@pytest.mark.parametrize(
    ("spelling", "networks"),
    [
        ("10.0.0.0/8,::1/128", ["10.0.0.0/8", "::1/128"]),
        (" 10.0.0.0/8 , ::1 ", ["10.0.0.0/8", "::1/128"]),
        ('["10.0.0.0/8", "::1/128"]', ["10.0.0.0/8", "::1/128"]),
        ('["10.0.0.0/8","::1"]', ["10.0.0.0/8", "::1/128"]),
        ("192.0.2.7", ["192.0.2.7/32"]),
        ("192.0.2.7/24", ["192.0.2.0/24"]),
        ("", []),
        ("[]", []),
    ],
)
def test_networks_in_the_environment_are_a_list_with_or_without_brackets(
    monkeypatch: pytest.MonkeyPatch, spelling: str, networks: list[str]
) -> None:
    monkeypatch.setenv("BRIDGE_TRUSTED_PROXIES", spelling)

    assert load_settings({}, None).settings.trusted_proxies == tuple(map(ip_network, networks))


@each_row(
    ("toml", "networks"),
    [
        ('["10.0.0.0/8", "::1"]', ["10.0.0.0/8", "::1/128"]),
        ('"10.0.0.0/8, ::1"', ["10.0.0.0/8", "::1/128"]),
        ("[]", []),
    ],
)
def test_networks_in_the_file_are_an_array_or_a_string(
    config_file: ConfigFile, toml: str, networks: list[str]
) -> None:
    loaded = load_settings({}, config_file(f"quota_exempt = {toml}"))

    assert loaded.settings.quota_exempt == tuple(map(ip_network, networks))


def test_only_loopback_is_exempt_from_quotas_and_no_proxy_is_trusted_by_default() -> None:
    settings = load_settings({}, None).settings

    assert settings.quota_exempt == (ip_network("127.0.0.0/8"), ip_network("::1/128"))
    assert settings.trusted_proxies == ()


@pytest.mark.parametrize(
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
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], directory: str
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert load_settings({}, None).settings.data_dir == Path(directory)


def test_a_public_url_loses_its_last_slash() -> None:
    assert load_settings({"public_url": "https://example.org/"}, None).settings.public_url == (
        "https://example.org"
    )


@each_row("secret", ["secret", "whsec_", "whsec_????", "whsec_" + "A" * 30, ""])
def test_a_malformed_webhook_secret_is_refused_before_anything_starts_and_never_repeated(
    config_file: ConfigFile, secret: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({}, config_file(f'webhook_secret = "{secret}"'))

    assert str(caught.value).startswith("webhook_secret (file ")
    assert len(secret) < 7 or secret not in str(caught.value)


def test_a_webhook_secret_of_24_bytes_is_accepted(config_file: ConfigFile) -> None:
    loaded = load_settings({}, config_file(f'webhook_secret = "{_WEBHOOK_KEY}"'))

    assert loaded.settings.webhook_secret is not None
    assert _WEBHOOK_KEY not in repr(loaded)


@each_row("name", ["admin_token", "metrics_token"])
def test_a_token_is_taken_without_the_space_around_it(name: str) -> None:
    token = getattr(load_settings({name: " of the operator\n"}, None).settings, name)

    assert token.get_secret_value() == "of the operator"
    with pytest.raises(SettingsError, match="must not be empty"):
        load_settings({name: " \n"}, None)


@pytest.mark.parametrize("value", ["inf", "nan", "0", "-1"])
@pytest.mark.parametrize("name", ["requests_per_second", "account_rate_per_hour", "sweep_interval"])
def test_a_rate_or_a_time_beyond_measure_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"BRIDGE_{name.upper()}", value)

    with pytest.raises(SettingsError, match=name):
        load_settings({}, None)


@pytest.mark.parametrize("none", ["none", "None", " none "])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("public_url", None),
        ("metrics_port", None),
        ("metrics_token", None),
        ("chain_id", None),
        ("private_keys", None),
        ("keystore_dir", None),
        ("quota_exempt", ()),
        ("trusted_proxies", ()),
        ("rpc_hosts", ()),
        ("inbox_origins", ()),
        ("apns_topic", ""),
    ],
)
def test_none_is_no_value_and_an_empty_list(
    monkeypatch: pytest.MonkeyPatch, config_file: ConfigFile, name: str, value: object, none: str
) -> None:
    assert getattr(load_settings({}, config_file(f'{name} = "{none}"')).settings, name) == value
    assert getattr(load_settings({}, None, {name: none}).settings, name) == value
    monkeypatch.setenv(f"BRIDGE_{name.upper()}", none)
    assert getattr(load_settings({}, None).settings, name) == value


@each_row("name", ["host", "data_dir", "port", "log_level", "dev_accounts"])
def test_a_setting_that_must_have_a_value_does_not_take_none(name: str) -> None:
    if name in ("host", "data_dir"):
        assert "none" in str(getattr(load_settings({}, None, {name: "none"}).settings, name))
    else:
        with pytest.raises(SettingsError, match=name):
            load_settings({}, None, {name: "none"})


def test_output_of_config_check_can_be_read_as_configuration(config_file: ConfigFile) -> None:
    loaded = load_settings({}, None)
    optional = [name for name, value in loaded.settings if value in (None, (), "")]

    again = load_settings({}, config_file("".join(f'{name} = "{NOT_SET}"\n' for name in optional)))

    assert again.settings == loaded.settings
    assert len(optional) > 20


_KEYS = (f"{1:064x}", f"{2:064x}")


@each_row(
    ("toml", "count"),
    [
        (f'["{_KEYS[0]}", "0x{_KEYS[1]}"]', 2),
        (f'["{_KEYS[0]}"]', 1),
        ("[]", 0),
        (f'"{_KEYS[0]}, {_KEYS[1]}"', 2),
    ],
)
def test_keys_in_the_file_are_an_array_or_a_string(config_file: ConfigFile, toml: str, count: int) -> None:
    assert len(keys_in_settings(load_settings({}, config_file(f"private_keys = {toml}")).settings)) == count


@each_row("toml", ["[5]", '["open-sesame"]', '[["open-sesame"]]'])
def test_malformed_keys_are_refused_and_not_repeated(config_file: ConfigFile, toml: str) -> None:
    with pytest.raises(SettingsError, match="private_keys") as caught:
        load_settings({}, config_file(f"private_keys = {toml}"))

    assert "open-sesame" not in str(caught.value)


def test_lists_in_the_file_are_arrays(config_file: ConfigFile) -> None:
    file = config_file(
        """
        trusted_proxies = ["127.0.0.1"]
        quota_exempt = []
        rpc_hosts = ["a.example", "b.example"]
        rpc_origins = ["http://a.example"]
        inbox_origins = ["http://a.example", "https://b.example"]
        """
    )

    settings = load_settings({}, file).settings

    assert (len(settings.trusted_proxies), settings.quota_exempt) == (1, ())
    assert settings.rpc_hosts == ("a.example", "b.example")
    assert (settings.rpc_origins, len(settings.inbox_origins)) == (("http://a.example",), 2)


@each_row("directory", [":memory:", "/data/:memory:"])
def test_a_database_in_memory_is_refused_with_what_to_do_instead(directory: str) -> None:
    with pytest.raises(SettingsError, match=r"data_dir \(flag --data-dir\).*temporary directory.*mktemp"):
        load_settings({"data_dir": directory}, None)


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
    values: dict[str, object], guarded: bool
) -> None:
    assert load_settings(values, None).settings.metrics_are_guarded is guarded


@each_row("host", ["0.0.0.0", "::", "192.0.2.1", "bridge.example.org"])
def test_metrics_on_a_port_that_others_reach_want_a_token(host: str) -> None:
    with pytest.raises(SettingsError, match=r"metrics_port: .* set metrics_token"):
        load_settings({"metrics_port": 9, "host": host}, None)
