"""Pairing URIs in both spellings: made, read, and refused with a reason."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kit.client import BadPairingError, Pairing, parse_pairing
from tests.support.rows import each_row

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "clients_v07.json").read_text("utf-8"))
KEY = bytes(range(32))
OLD = Pairing("https://bridge.example", "8a5e5bdc-a0e4-4702-ba63-8f1a5655744f", KEY, "Example Dapp").uri
LATER = Pairing("https://bridge.example", "8a5e5bdc-a0e4-4702-ba63-8f1a5655744f", KEY).wc_uri

session_ids = st.from_regex(r"[A-Za-z0-9_-]{1,128}", fullmatch=True)
keys = st.binary(min_size=32, max_size=32)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=255)
bridge_urls = st.from_regex(
    r"https?://[a-z0-9]{1,20}(\.[a-z]{2,5})?(:8[0-9]{3})?(/[a-zA-Z0-9._~!$'()*,;=&%:@-]{1,20}){0,3}",
    fullmatch=True,
)


@given(bridge_urls, session_ids, keys, names)
def test_the_spelling_of_0_7_round_trips(url: str, session_id: str, key: bytes, name: str) -> None:
    pairing = Pairing(url, session_id, key, name)

    assert parse_pairing(pairing.uri) == pairing


@given(bridge_urls, session_ids, keys)
def test_the_later_spelling_round_trips(url: str, session_id: str, key: bytes) -> None:
    pairing = Pairing(url, session_id, key)

    assert parse_pairing(pairing.wc_uri) == pairing


@given(st.text())
def test_any_text_is_a_pairing_or_refused(text: str) -> None:
    for uri in (text, f"ethereum:wc-{text}", OLD + text, f"wc:{text}", LATER + text, text.join(OLD)):
        with suppress(BadPairingError):
            assert parse_pairing(parse_pairing(uri).wc_uri).key == parse_pairing(uri).key


@each_row("vector", VECTORS["uris"], ids=lambda vector: str(vector["name"]))
def test_uris_are_those_of_the_published_client(vector: dict[str, Any]) -> None:
    pairing = Pairing(vector["bridge"], vector["sessionId"], bytes.fromhex(vector["key"]), vector["name"])

    assert pairing.uri == vector["uri"]
    assert parse_pairing(vector["uri"]) == pairing


def test_the_spellings_are_these() -> None:
    key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

    assert (
        "ethereum:wc-8a5e5bdc-a0e4-4702-ba63-8f1a5655744f@1"
        f"?name=Example%20Dapp&bridge=https%3A%2F%2Fbridge.example&symKey={key}"
    ) == OLD
    assert LATER == (
        "wc:8a5e5bdc-a0e4-4702-ba63-8f1a5655744f@1"
        "?bridge=https%3A%2F%2Fbridge.example"
        "&key=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    )


def test_other_spellings_of_a_uri_are_read() -> None:
    key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8%3D"
    plain_bridge = f" ethereum:wc-id@1?symKey={key}&x=1&x=2&bridge=https://bridge.example/&name=A%26B\n"

    assert parse_pairing(plain_bridge) == Pairing("https://bridge.example", "id", KEY, "A&B")


def test_a_pairing_shows_no_key() -> None:
    assert KEY.hex() not in repr(parse_pairing(LATER))
    assert "key" not in repr(parse_pairing(LATER))


@each_row(
    ("uri", "reason"),
    [
        ("", "begins with ethereum:wc- or with wc:"),
        ("https://bridge.example", "begins with"),
        ("ethereum:pay-0xab@1", "begins with"),
        (OLD.replace("@1", "@2"), "@1"),
        (LATER.replace("@1", ""), "@1"),
        (OLD.partition("?")[0], "name"),
        (OLD.replace("name=", "nom="), "parameter name once"),
        (OLD.replace("Example%20Dapp", ""), "name"),
        (OLD + "&name=Other", "parameter name once"),
        (OLD.replace("symKey", "key"), "parameter symKey"),
        (OLD + "&symKey=" + "A" * 43 + "=", "symKey"),
        (LATER.replace("bridge=", "brdige="), "parameter bridge"),
        (LATER.replace("key=", "symKey="), "parameter key"),
        (OLD[:-1], "Base64"),
        (OLD.replace("symKey=", "symKey=%C3%A4"), "Base64"),
        (OLD.partition("&symKey=")[0] + "&symKey=AAAA", "32 bytes, not 3"),
        (LATER + "0", "64 hexadecimal"),
        (LATER[:-1] + "g", "64 hexadecimal"),
        (LATER.replace("8a5e", "8a5e%2F"), "session id"),
        (LATER.replace("8a5e5bdc-a0e4-4702-ba63-8f1a5655744f", ""), "session id"),
        (LATER.replace("https%3A%2F%2F", ""), "http"),
        (LATER.replace("https", "ftp"), "http"),
        (LATER.replace("bridge.example", "bridge.example%3Fa"), "query"),
        (LATER.replace("bridge.example", "user%40bridge.example"), "no user"),
    ],
)
def test_fault_of_a_uri_is_named(uri: str, reason: str) -> None:
    with pytest.raises(BadPairingError, match=reason) as refusal:
        parse_pairing(uri)

    assert KEY.hex() not in str(refusal.value)


@each_row("name", ["", "n" * 256, "\ud800"])
def test_a_name_that_bridges_refuse_is_refused_before(name: str) -> None:
    with pytest.raises(BadPairingError, match="name"):
        Pairing("https://bridge.example", "id", KEY, name)


def test_without_a_name_there_is_no_uri_of_0_7() -> None:
    with pytest.raises(BadPairingError, match="name"):
        _ = parse_pairing(LATER).uri
