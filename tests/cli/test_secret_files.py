"""Secrets in files: variables that name one, and systemd credentials."""

import signal
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import (
    FILES_OF_SECRETS,
    SettingsError,
    file_variables,
    load_settings,
    secret_names,
)
from tests.cli.conftest import Invoke
from tests.support.command import watched_server
from tests.support.eventually import eventually

ConfigFile = Callable[[str], Path]

_SECRETS = {
    "admin_token": "of-the-operator",
    "metrics_token": "of-prometheus",
    "rpc_token": "of-the-dapp",
    "webhook_secret": "whsec_" + "A" * 32,
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


@pytest.mark.parametrize("name", sorted(_SECRETS.keys() - {"private_keys"}))
def test_a_variable_names_the_file_of_each_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{_SECRETS[name]}\n", "utf-8")
    monkeypatch.setenv(f"BRIDGE_{name.upper()}_FILE", str(file))

    loaded = load_settings(_BESIDE.get(name, {}), None)

    assert getattr(loaded.settings, name).get_secret_value() == _SECRETS[name]
    assert loaded.origins[name] == f"file {file} of environment BRIDGE_{name.upper()}_FILE"
    assert loaded.unknown_variables == ()


@pytest.mark.parametrize("name", _SECRETS)
def test_a_systemd_credential_is_the_secret_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_text(f"{_SECRETS[name]}\n", "utf-8")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))

    loaded = load_settings(_BESIDE.get(name, {}), None)

    assert getattr(loaded.settings, name).get_secret_value() == _SECRETS[name]
    assert loaded.origins[name] == f"systemd credential {name}"


def test_a_credential_is_the_file_of_a_setting_that_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "private_keys_file").write_text("46" * 32, "utf-8")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))

    assert load_settings({}, None).settings.private_keys_file == tmp_path / "private_keys_file"


def test_the_setting_private_keys_file_keeps_its_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{'46' * 32} # mine\n{'47' * 32}\n", "utf-8")
    monkeypatch.setenv("BRIDGE_PRIVATE_KEYS_FILE", str(file))

    settings = load_settings({}, None).settings

    assert (settings.private_keys_file, settings.private_keys) == (file, None)
    assert "BRIDGE_PRIVATE_KEYS_FILE" not in file_variables()


def test_the_variable_wins_over_its_credential_and_that_over_the_toml_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config_file: ConfigFile
) -> None:
    toml = config_file('admin_token = "of-toml"\nrpc_token = "of-toml"\nmetrics_token = "of-toml"')
    for name in ("admin_token", "rpc_token"):
        (tmp_path / name).write_text("of-systemd")
    (tmp_path / "secret").write_text("of-a-file")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("BRIDGE_ADMIN_TOKEN_FILE", str(tmp_path / "secret"))

    settings = load_settings({}, toml).settings

    tokens = (settings.admin_token, settings.rpc_token, settings.metrics_token)
    assert [token.get_secret_value() for token in tokens if token] == ["of-a-file", "of-systemd", "of-toml"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "BRIDGE_ADMIN_TOKEN_FILE: {file} cannot be read: No such file or directory"),
        (b"\xff\xfe", "BRIDGE_ADMIN_TOKEN_FILE: {file} is no text in UTF-8"),
        (b"\n", "admin_token (file {file} of environment BRIDGE_ADMIN_TOKEN_FILE): must not be empty"),
    ],
    ids=["missing", "binary", "empty"],
)
def test_a_file_that_cannot_be_used_is_named_with_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, complaint: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("BRIDGE_ADMIN_TOKEN_FILE", str(file))

    with pytest.raises(SettingsError) as caught:
        load_settings({}, None)

    assert str(caught.value).startswith(complaint.format(file=file))


def test_a_secret_and_its_file_are_not_both_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_RPC_TOKEN", "one")
    monkeypatch.setenv("BRIDGE_RPC_TOKEN_FILE", "/dev/null")

    with pytest.raises(SettingsError) as caught:
        load_settings({}, None)

    assert str(caught.value) == "BRIDGE_RPC_TOKEN and BRIDGE_RPC_TOKEN_FILE are both set: leave one out"


def test_config_check_shows_the_file_and_not_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    (tmp_path / "secret").write_text("of-the-operator")
    monkeypatch.setenv("BRIDGE_ADMIN_TOKEN_FILE", str(tmp_path / "secret"))
    monkeypatch.setenv("BRIDGE_PORT_FILE", "8081")

    shown = invoke("config", "check")

    assert f"file {tmp_path / 'secret'} of environment BRIDGE_ADMIN_TOKEN_FILE" in shown.output
    assert "of-the-operator" not in shown.output
    assert "BRIDGE_PORT_FILE is set, but there is no such setting" in shown.output


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
