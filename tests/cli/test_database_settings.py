"""The settings of a PostgreSQL database: URLs that can be read, and are shown without their passwords."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.settings import server
from bridge_server.settings.settings import shown_settings
from bridge_server.settings.sources import SettingsError, settings_of
from bridge_server.storage.database import url_without_password
from tests.cli.conftest import Invoke
from tests.support.rows import each_row

_URL = "postgresql://bridge:open-sesame@127.0.0.1:1/bridge"


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
def test_urls_that_can_be_read(url: str) -> None:
    database = settings_of({"database": url}).database

    assert database is not None
    assert database.get_secret_value() == url


@each_row(
    ("url", "reason"),
    [
        ("mysql://open-sesame@db/bridge", "must be the URL of a PostgreSQL database"),
        ("open-sesame", "must be the URL of a PostgreSQL database"),
        ("postgresql://bridge:open@sesame@db/bridge", "write @ as %40"),
        ("postgresql://bridge:open-sesame@db:port/bridge", "the port after the host must be a number"),
        ("postgresql://bridge:open/sesame@db/bridge", "the port after the host must be a number"),
        ("postgresql://bridge:open-sesame@db:99999/bridge", "from 1 to 65535"),
        ("postgresql://bridge:open-sesame@[::1/bridge", "cannot be read"),
        ("postgresql://bridge:open-sesame@db", "must name the database"),
        ("postgresql://bridge:open-sesame@db/bridge?sslmode", "must be name=value"),
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_repeating_it(url: str, reason: str) -> None:
    assert reason in complaint_about(database=url)


def test_the_limit_of_a_file_is_refused() -> None:
    assert complaint_about(database=_URL, database_limit=10**9).startswith("database_limit: ")


def test_a_direct_url_alone_is_refused() -> None:
    assert complaint_about(database_direct=_URL) == (
        "database_direct: works beside database only: set database too"
    )


def test_the_only_process_has_the_wallet() -> None:
    assert complaint_about(holds_wallet=False).startswith("holds_wallet: works beside database only")


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
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BRIDGE_DATABASE", _URL)

    result = invoke("config", "check", "--json", "--data-dir", tmp_path)

    assert result.exit_code == 2
    assert json.loads(result.stdout)["database"]["value"] == "postgresql://bridge:***@127.0.0.1:1/bridge"
    assert result.stderr.startswith(
        "bridge-server: the database postgresql://bridge:***@127.0.0.1:1/bridge cannot be reached ("
    )


def test_config_list_names_the_settings_of_a_database(invoke: Invoke) -> None:
    rows = {row["name"]: row for row in json.loads(invoke("config", "list", "--json").stdout)["settings"]}

    assert rows["database"]["variable"] == "BRIDGE_DATABASE"
    assert rows["drain_seconds"]["default"] == 0
