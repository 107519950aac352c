"""Where a setting comes from, and what is said of one that cannot be used."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import SettingsError, load_settings
from tests.support.rows import each_row

ConfigFile = Callable[[str], Path]


@pytest.mark.parametrize(
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
    config_file: ConfigFile, monkeypatch: pytest.MonkeyPatch, sources: str, value: int, origin: str
) -> None:
    file = config_file("port = 1001") if "file" in sources else None
    if "environment" in sources:
        monkeypatch.setenv("BRIDGE_PORT", "1002")
    flags = {"port": 1003} if "flag" in sources else {}

    loaded = load_settings(flags, file)

    assert loaded.settings.port == value
    assert loaded.origins["port"] == origin.format(file=file)


def test_every_setting_has_an_origin() -> None:
    assert load_settings({}, None).origins == dict.fromkeys(Settings.model_fields, "default")


@each_row(
    ("toml", "suggestion"),
    [
        ("prot = 1", "there is no setting prot; did you mean port?"),
        ("session_tll = 1", "there is no setting session_tll; did you mean session_ttl?"),
        ("something_else_altogether = 1", "there is no setting something_else_altogether"),
        ("[relay]\nport = 1", "there is no setting relay"),
    ],
)
def test_an_unknown_name_in_the_file_is_refused_with_the_nearest_one(
    config_file: ConfigFile, toml: str, suggestion: str
) -> None:
    file = config_file(toml)

    with pytest.raises(SettingsError) as caught:
        load_settings({}, file)

    assert str(caught.value).startswith(f"{file}: {suggestion}")


def test_every_unknown_name_is_named(config_file: ConfigFile) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({}, config_file("prot = 1\nhots = 2"))

    assert len(str(caught.value).splitlines()) == 2


@each_row("content", ["port = ", "port = 1\nport = 2", "\x00", "[["])
def test_a_file_that_is_not_toml_is_refused(config_file: ConfigFile, content: str) -> None:
    file = config_file(content)

    with pytest.raises(SettingsError, match=r"cannot be read|is not TOML") as caught:
        load_settings({}, file)

    assert str(file) in str(caught.value)


def test_a_file_that_is_missing_or_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")

    for name in ("missing.toml", "binary.toml", "."):
        with pytest.raises(SettingsError, match=r"cannot be read|is not TOML"):
            load_settings({}, tmp_path / name)


@each_row(
    "toml",
    [
        "port = 65536",
        "port = -1",
        'port = "http"',
        'log_level = "loud"',
        'log_format = "xml"',
        'public_url = "example.org"',
        "public_url = 5",
        'public_url = ["https://example.org"]',
        "max_wait = 0",
        "max_wait = 301",
        "session_ttl = 0",
        "requests_per_second = 0",
        "webhook_timeout = 0",
        "webhook_timeout = nan",
        'access_log = "perhaps"',
        'trusted_proxies = ["10.0.0.0/33"]',
        'trusted_proxies = "here, there"',
        "trusted_proxies = 5",
        "trusted_proxies = true",
        "data_dir = 5",
        "metrics_port = 65536",
        'metrics_token = ""',
        "metrics_token = 5",
    ],
)
def test_a_value_that_cannot_be_used_names_its_setting_and_its_origin(
    config_file: ConfigFile, toml: str
) -> None:
    file = config_file(toml)

    with pytest.raises(SettingsError) as caught:
        load_settings({}, file)

    assert str(caught.value).startswith(f"{toml.split(maxsplit=1)[0]} (file {file}): ")


def test_bad_values_of_all_origins_are_reported_together(
    config_file: ConfigFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = config_file("max_wait = 0")
    monkeypatch.setenv("BRIDGE_LOG_LEVEL", "loud")

    with pytest.raises(SettingsError) as caught:
        load_settings({"port": 70_000}, file)

    lines = sorted(line.split(":")[0] for line in str(caught.value).splitlines())
    assert lines == [
        "log_level (environment BRIDGE_LOG_LEVEL)",
        f"max_wait (file {file})",
        "port (flag --port)",
    ]


@each_row(("session_ttl", "usable"), [(7_199, False), (7_200, True), (7_201, True)])
def test_a_session_must_outlive_its_calls_and_their_statuses(session_ttl: int, usable: bool) -> None:
    values = {"session_ttl": session_ttl, "call_ttl": 3_600, "status_ttl": 3_600}

    if usable:
        assert load_settings(values, None).settings.session_ttl == session_ttl
    else:
        with pytest.raises(SettingsError, match="session_ttl must be at least call_ttl \\+ status_ttl"):
            load_settings(values, None)


@each_row(("session_ttl", "call_ttl"), [("2", 1), (60, 30), (7_199, 3_599), (7_200, 3_600), ("86401", 3_600)])
def test_a_short_session_ttl_alone_shortens_calls_and_statuses(session_ttl: int | str, call_ttl: int) -> None:
    settings = load_settings({"session_ttl": session_ttl}, None).settings

    assert (settings.call_ttl, settings.status_ttl) == (call_ttl, call_ttl)


def test_a_call_ttl_that_is_set_is_not_shortened() -> None:
    with pytest.raises(SettingsError, match="session_ttl must be at least call_ttl \\+ status_ttl"):
        load_settings({"session_ttl": 60, "call_ttl": 30}, None)


def test_unknown_environment_variable_is_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_PROT", "1")
    monkeypatch.setenv("BRIDGE_CONFIG", "")
    monkeypatch.setenv("BRIDGE_PORT", "1")
    monkeypatch.setenv("BRIDGEHEAD", "1")

    assert load_settings({}, None).unknown_variables == ("BRIDGE_PROT",)
