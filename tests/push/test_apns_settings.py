from pathlib import Path

import pytest
from Crypto.PublicKey import ECC, RSA

from bridge_server.push.providers.credentials import ApnsSettings
from tests.support.rows import each_row

KEY = str(ECC.generate(curve="P-256").export_key(format="PEM"))


def made(**changes: object) -> ApnsSettings:
    sound: dict[str, object] = {
        "key": KEY,
        "key_id": "ABC123DEFG",
        "team_id": "DEF123GHIJ",
        "topic": "com.example.wallet",
    }
    return ApnsSettings(**{**sound, **changes})  # type: ignore[arg-type]


@each_row(
    ("changes", "url"),
    [
        ({}, "https://api.push.apple.com"),
        ({"environment": "sandbox"}, "https://api.sandbox.push.apple.com"),
        ({"endpoint": "https://127.0.0.1:8443"}, "https://127.0.0.1:8443"),
        ({"endpoint": "https://[::1]:8443/"}, "https://[::1]:8443/"),
    ],
)
def test_the_environment_chooses_the_endpoint_unless_one_is_set(changes: dict[str, object], url: str) -> None:
    assert str(made(**changes).url) == url


FAULTS: dict[str, tuple[dict[str, object], str]] = {
    "an empty key": ({"key": ""}, "the key must be a PEM text that begins with -----BEGIN PRIVATE KEY-----"),
    "a key without its frame": ({"key": KEY[28:80]}, "the key must be a PEM text"),
    "a key cut short": ({"key": KEY[:80]}, "the key is no elliptic curve key in PEM"),
    "an RSA key": ({"key": RSA.generate(1_024).export_key().decode()}, "the key is no elliptic curve key"),
    "a public key": (
        {"key": str(ECC.import_key(KEY).public_key().export_key(format="PEM"))},
        "the key is a public one",
    ),
    "a key of another curve": (
        {"key": str(ECC.generate(curve="P-384").export_key(format="PEM"))},
        "the key is on the curve NIST P-384, and APNs takes P-256",
    ),
    "a short key id": ({"key_id": "ABC"}, "key_id must be 10 upper-case letters and digits"),
    "a key id in lower case": ({"key_id": "abc123defg"}, "key_id must be 10 upper-case letters and digits"),
    "a team id with a space": ({"team_id": "DEF123GHI "}, "team_id must be 10 upper-case letters and digits"),
    "no topic": ({"topic": ""}, "topic must be the app's bundle id, such as com.example.wallet"),
    "a topic that is a header's end": ({"topic": "com.example\r\n"}, "topic must be the app's bundle id"),
    "another environment": ({"environment": "staging"}, "environment must be production or sandbox"),
    "an endpoint without TLS": ({"endpoint": "http://127.0.0.1"}, "endpoint must be an https URL"),
    "an endpoint with a path": ({"endpoint": "https://a.example/3/device"}, "endpoint must be an https URL"),
    "an endpoint that is no URL": ({"endpoint": "https://[/"}, "endpoint must be an https URL"),
    "a CA file that is not there": ({"ca_file": "/nowhere/ca.pem"}, "ca_file names no file"),
    "no time at all": ({"timeout_seconds": 0.0}, "timeout_seconds must be more than 0"),
}


@each_row(("changes", "complaint"), list(FAULTS.values()), ids=list(FAULTS))
def test_malformed_settings_are_refused_with_the_reason(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match="the APNs settings are not usable") as caught:
        made(**changes)

    assert complaint in str(caught.value)
    key = changes.get("key", KEY)
    assert not isinstance(key, str) or not key[40:60] or key[40:60] not in str(caught.value)


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(
        ValueError, match=r"the key must .*; apns_key_id must .*; apns_team_id must .*; apns_topic must .*"
    ):
        ApnsSettings("", "", "", "")


def test_the_key_does_not_show(tmp_path: Path) -> None:
    assert KEY[40:60] not in repr(made(ca_file=None))
