"""Credentials for pushes that cannot be used: one line that names the setting, and nothing of a secret."""

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from tests.cli.conftest import Invoke
from tests.support.command import run_command
from tests.support.rows import each_row

SECRET = "c2VjcmV0LXRoYXQtbm9ib2R5LW1heS1zZWU"
RSA_KEY = rsa.generate_private_key(65_537, 2_048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
VAPID_KEY = "a" * 42 + "A"
PRIVATE = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
PUBLIC = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
RSA_PEM, EC_PEM = RSA_KEY.private_bytes(*PRIVATE).decode(), EC_KEY.private_bytes(*PRIVATE).decode()
ACCOUNT = {
    "type": "service_account",
    "project_id": "demo-wallet",
    "private_key": RSA_PEM,
    "client_email": "pusher@demo-wallet.iam.gserviceaccount.com",
    "token_uri": "https://oauth2.googleapis.com/token",
}
SOUND_APNS = {"apns_key_id": "ABC123DEFG", "apns_team_id": "DEF123GHIJ", "apns_topic": "com.example.wallet"}
SOUND_VAPID = {"vapid_private_key": VAPID_KEY, "vapid_subject": "mailto:you@example.org"}

Set = Callable[..., None]


@pytest.fixture
def set_up(monkeypatch: pytest.MonkeyPatch) -> Set:
    """Sets settings by variables."""

    def set_variables(**settings: object) -> None:
        for name, value in settings.items():
            monkeypatch.setenv(f"BRIDGE_{name.upper()}", str(value))

    return set_variables


def complaints(invoke: Invoke) -> list[str]:
    """What `config check` says of settings that it must refuse."""
    result = invoke("config", "check")
    assert (result.exit_code, result.stdout) == (2, "")
    text = result.stderr.removeprefix("bridge-server: ")
    assert SECRET not in text
    assert "PRIVATE KEY-----\n" not in text
    return text.splitlines()


@each_row(
    "content",
    [
        b"",
        SECRET.encode(),
        b"[]",
        b'{"private_key": "' + SECRET.encode() + b'"}',
        b"\xff\xfe",
        orjson.dumps({**ACCOUNT, "type": "authorized_user", "refresh_token": SECRET}),
        orjson.dumps({**ACCOUNT, "private_key": f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END"}),
        orjson.dumps({**ACCOUNT, "private_key": EC_PEM}),
        orjson.dumps({**ACCOUNT, "private_key": RSA_KEY.public_key().public_bytes(*PUBLIC).decode()}),
        orjson.dumps({**ACCOUNT, "project_id": None}),
        orjson.dumps({**ACCOUNT, "client_email": "nobody"}),
        orjson.dumps({**ACCOUNT, "token_uri": "ftp://token"}),
    ],
)
def test_malformed_service_account_is_refused(
    invoke: Invoke, set_up: Set, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "account.json"
    file.write_bytes(content)
    set_up(fcm_credentials=file)

    (line,) = complaints(invoke)

    assert line.startswith("fcm_credentials: ")


@pytest.mark.parametrize("name", ["fcm_credentials", "apns_key"])
@pytest.mark.parametrize("kind", ["missing", "a directory"])
def test_a_file_that_cannot_be_read(
    invoke: Invoke, set_up: Set, tmp_path: Path, name: str, kind: str
) -> None:
    file = tmp_path / "missing.json" if kind == "missing" else tmp_path
    set_up(**{name: file}, **(SOUND_APNS if name == "apns_key" else {}))

    (line,) = complaints(invoke)

    assert line.startswith(f"{name}: {file} cannot be read: ")


@each_row(
    ("content", "changes", "named"),
    [
        ("", {}, "apns_key"),
        (SECRET, {}, "apns_key"),
        (f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----", {}, "apns_key"),
        (RSA_PEM, {}, "apns_key"),
        (EC_KEY.public_key().public_bytes(*PUBLIC).decode(), {}, "apns_key"),
        (ec.generate_private_key(ec.SECP384R1()).private_bytes(*PRIVATE).decode(), {}, "apns_key"),
        (EC_PEM, {"apns_key_id": ""}, "apns_key_id"),
        (EC_PEM, {"apns_key_id": "abc123defg"}, "apns_key_id"),
        (EC_PEM, {"apns_team_id": "DEF123GHI"}, "apns_team_id"),
        (EC_PEM, {"apns_topic": ""}, "apns_topic"),
        (EC_PEM, {"apns_topic": "com example"}, "apns_topic"),
        (EC_PEM, {"apns_endpoint": "http://127.0.0.1:1"}, "apns_endpoint"),
        (EC_PEM, {"apns_ca_file": "/nowhere/ca.pem"}, "apns_ca_file"),
        (EC_PEM, {"apns_environment": "staging"}, "apns_environment"),
    ],
)
def test_settings_of_apns_that_cannot_be_used(
    invoke: Invoke, set_up: Set, tmp_path: Path, content: str, changes: dict[str, str], named: str
) -> None:
    file = tmp_path / "AuthKey.p8"
    file.write_text(content, "ascii")
    set_up(apns_key=file, **{**SOUND_APNS, **changes})

    (line,) = complaints(invoke)

    assert named in line


@each_row(
    ("changes", "named"),
    [
        ({"vapid_private_key": SECRET}, "vapid_private_key"),
        ({"vapid_private_key": "+" + VAPID_KEY[1:]}, "vapid_private_key"),
        ({"vapid_private_key": "A" * 43}, "vapid_private_key"),
        ({"vapid_private_key": "_" * 42 + "8"}, "vapid_private_key"),
        ({"vapid_private_key": "B" * 87}, "vapid_private_key"),
        ({"vapid_private_key": ""}, "vapid_private_key"),
        ({"vapid_subject": ""}, "vapid_subject"),
        ({"vapid_subject": "you@example.org"}, "vapid_subject"),
        ({"vapid_subject": "http://example.org"}, "vapid_subject"),
        ({"vapid_subject": "mailto:you@localhost"}, "vapid_subject"),
    ],
)
def test_settings_of_web_push_that_cannot_be_used(
    invoke: Invoke, set_up: Set, changes: dict[str, str], named: str
) -> None:
    set_up(**{**SOUND_VAPID, **changes})

    (line,) = complaints(invoke)

    assert line.startswith(named)
    assert VAPID_KEY[:20] not in line


def test_every_fault_has_its_line(invoke: Invoke, set_up: Set, tmp_path: Path) -> None:
    set_up(fcm_credentials=tmp_path, apns_key=tmp_path, vapid_private_key=SECRET, vapid_subject="nobody")

    lines = complaints(invoke)

    assert [line.partition(":")[0] for line in lines] == [
        "fcm_credentials",
        "apns_key",
        "vapid_private_key",
        "vapid_subject",
    ]


def test_sound_credentials_are_listed_without_their_secrets(
    invoke: Invoke, set_up: Set, tmp_path: Path
) -> None:
    account, key = tmp_path / "account.json", tmp_path / "AuthKey.p8"
    account.write_bytes(orjson.dumps(ACCOUNT))
    key.write_text(EC_PEM, "ascii")
    set_up(fcm_credentials=account, apns_key=key, **SOUND_APNS, **SOUND_VAPID)

    result = invoke("config", "check")

    assert (result.exit_code, result.stderr) == (0, "")
    assert VAPID_KEY not in result.stdout
    assert "PRIVATE KEY" not in result.stdout


def test_a_server_does_not_start_with_credentials_that_cannot_be_used(tmp_path: Path) -> None:
    finished = run_command(
        "serve", "--data-dir", tmp_path / "data", environment={"BRIDGE_VAPID_PRIVATE_KEY": SECRET}
    )

    assert finished.exit_code == 2
    assert "vapid_private_key" in finished.err
    assert SECRET not in finished.out + finished.err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"vapid_subject": "mailto:you@example.org"}, ["vapid_subject"]),
        (SOUND_APNS, ["apns_key_id", "apns_team_id", "apns_topic"]),
    ],
)
def test_settings_of_a_missing_key_are_refused(
    invoke: Invoke, set_up: Set, settings: dict[str, str], named: list[str]
) -> None:
    set_up(**settings)

    assert [line.partition(":")[0] for line in complaints(invoke)] == named


def test_a_file_without_a_name(invoke: Invoke, set_up: Set) -> None:
    set_up(apns_key="", **SOUND_APNS)

    assert "must name a file" in "".join(complaints(invoke))
