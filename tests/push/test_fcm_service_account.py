from collections.abc import Callable
from typing import Any

import orjson
import pytest
from Crypto.PublicKey import ECC, RSA

from bridge_server.push.providers.credentials import ServiceAccount
from tests.support.fcm_service import rsa_key
from tests.support.rows import each_row

PEM = rsa_key().export_key(pkcs=8).decode()
SOUND = {
    "type": "service_account",
    "project_id": "demo-wallet",
    "private_key_id": "k1",
    "private_key": PEM,
    "client_email": "pusher@demo-wallet.iam.gserviceaccount.com",
    "token_uri": "https://oauth2.googleapis.com/token",
}


def file(**changes: object) -> bytes:
    return orjson.dumps({name: value for name, value in {**SOUND, **changes}.items() if value is not None})


def key_of(make: Callable[[], Any]) -> str:
    text = make()
    return text.decode() if isinstance(text, bytes) else str(text)


def test_a_sound_file_is_read() -> None:
    account = ServiceAccount.parse(file())

    assert (account.project_id, account.private_key_id) == ("demo-wallet", "k1")
    assert account.private_key.has_private()


@each_row("key_id", [None, "", 5])
def test_a_file_without_a_key_id_will_do(key_id: object) -> None:
    assert ServiceAccount.parse(file(private_key_id=key_id)).private_key_id is None


@each_row("text", [b"", b"{", b"type: service_account", b"\xff"])
def test_file_that_is_not_json_is_refused_as_such(text: bytes) -> None:
    with pytest.raises(ValueError, match="is not JSON; make one in the Firebase console"):
        ServiceAccount.parse(text)


@each_row("text", ["[]", '"x"', "null"])
def test_json_other_than_an_object_is_refused_as_such(text: str) -> None:
    with pytest.raises(ValueError, match="must hold a JSON object"):
        ServiceAccount.parse(text)


FAULTS: dict[str, tuple[dict[str, object], str]] = {
    "the app's file": ({"type": None}, "google-services.json is the app's file"),
    "another kind of account": ({"type": "authorized_user"}, 'type must be "service_account"'),
    "no project": ({"project_id": None}, "project_id must be the id of a Google Cloud project"),
    "a project with a slash": ({"project_id": "a/../b"}, "project_id must be"),
    "a project with a number": ({"project_id": 12345}, "project_id must be"),
    "no address": ({"client_email": "pusher"}, "client_email must be an address"),
    "no token endpoint": ({"token_uri": None}, "token_uri must be an absolute http"),
    "a relative token endpoint": ({"token_uri": "/token"}, "token_uri must be an absolute http"),
    "a token endpoint of another scheme": ({"token_uri": "ftp://x/"}, "token_uri must be an absolute http"),
    "a token endpoint that is no URL": ({"token_uri": "http://[/"}, "token_uri must be an absolute http"),
    "no key": ({"private_key": None}, "private_key must be a PEM text"),
    "a key without its frame": ({"private_key": "MIIEvQ"}, "private_key must be a PEM text"),
    "a key with its line breaks spelled out": (
        {"private_key": PEM.replace("\n", "\\n")},
        "keep the line breaks as the file had them",
    ),
    "a key cut short": ({"private_key": PEM[:800]}, "private_key is no RSA key in PEM"),
    "a public key": (
        {"private_key": RSA.import_key(PEM).public_key().export_key().decode()},
        "private_key holds a public key",
    ),
    "a key of another kind": (
        {"private_key": key_of(lambda: ECC.generate(curve="P-256").export_key(format="PEM"))},
        "private_key is no RSA key in PEM",
    ),
    "an encrypted key": (
        {"private_key": key_of(lambda: RSA.generate(1_024).export_key(pkcs=8, passphrase="x"))},
        "unencrypted",
    ),
    "a weak key": (
        {"private_key": key_of(lambda: RSA.generate(1_024).export_key(pkcs=8))},
        "private_key has 1024 bits; at least 2048 are needed",
    ),
}


@each_row(("changes", "complaint"), list(FAULTS.values()), ids=list(FAULTS))
def test_malformed_file_is_refused_with_the_reason(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is looked at below
        ServiceAccount.parse(file(**changes))

    assert complaint in str(caught.value)
    assert PEM[40:60] not in str(caught.value)
    assert caught.value.__cause__ is None


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(
        ValueError, match=r"type must be .*; project_id .*; private_key .*; client_email .*; token"
    ):
        ServiceAccount.parse(b"{}")


def test_the_key_does_not_show() -> None:
    account = ServiceAccount.parse(file())

    assert "private_key=" not in repr(account)
    assert PEM[40:60] not in f"{account!r} {account}"
