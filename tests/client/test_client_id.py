"""A client's identity at a relay, read by an independent implementation."""

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel import base64url
from bridge_server.kit.client import v2_session
from bridge_server.kit.client.v2_session import ClientId, base58
from tests.support.rows import each_row

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "clients_v2.json").read_text("utf-8"))
RELAY = "wss://relay.example"
NOW_S = 1_700_000_000


def test_the_token_is_that_of_the_published_client(monkeypatch: pytest.MonkeyPatch) -> None:
    vector = VECTORS["token"]
    monkeypatch.setattr(v2_session, "token_hex", lambda _: vector["sub"])
    own = ClientId(bytes.fromhex(vector["seed"]))

    token = own.token(vector["aud"], vector["iat"])

    assert own.did == vector["did"]
    assert claims_of(token) == claims_of(vector["jwt"])
    assert header_of(token) == header_of(vector["jwt"]) == {"alg": "EdDSA", "typ": "JWT"}


@given(st.binary(min_size=32, max_size=32))
def test_the_did_names_the_key_that_has_signed(seed: bytes) -> None:
    own = ClientId(seed)
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()

    assert own.did.startswith("did:key:z6Mk")
    assert own.did == f"did:key:z{base58(bytes.fromhex('ed01') + public)}"
    verify(own.token(RELAY, NOW_S), public)
    with pytest.raises(InvalidSignature):
        verify(ClientId().token(RELAY, NOW_S), public)


def test_a_token_names_the_relay_and_holds_for_a_day() -> None:
    own = ClientId()

    claims, again = claims_of(own.token(RELAY, NOW_S)), claims_of(own.token(RELAY, NOW_S))

    assert claims == {**claims, "iss": own.did, "aud": RELAY, "iat": NOW_S, "exp": NOW_S + 86_400}
    assert claims["sub"] != again["sub"]


@each_row(
    ("data", "text"),
    [(b"", ""), (b"\0\0\x01", "112"), (b"Hello World!", "2NEpo7TZRRrLZSi2U")],
)
def test_base58_is_that_of_the_internet_draft(data: bytes, text: str) -> None:
    assert base58(data) == text


def header_of(token: str) -> Any:
    return json.loads(base64url.decode(token.split(".", maxsplit=1)[0]))


def claims_of(token: str) -> Any:
    return json.loads(base64url.decode(token.split(".")[1]))


def verify(token: str, public: bytes) -> None:
    """Raises InvalidSignature."""
    signed, _, signature = token.rpartition(".")
    Ed25519PublicKey.from_public_bytes(public).verify(base64url.decode(signature), signed.encode())
