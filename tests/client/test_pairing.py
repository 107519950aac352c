"""Pairing URIs of every generation: made, read, and refused with a reason."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kit.client import (
    BadPairingError,
    Dapp,
    Generation,
    Pairing,
    UnsupportedError,
    Wallet,
    parse_pairing,
)
from bridge_server.kit.client.v2_protocol import RelayPairing, parse_relay_pairing
from tests.support.rows import each_row

V07, V2 = (
    json.loads((Path(__file__).parents[1] / "vectors" / f"clients_{generation}.json").read_text("utf-8"))
    for generation in ("v07", "v2")
)
KEY = bytes(range(32))
SPELLED = Pairing("https://bridge.example", "8a5e5bdc-a0e4-4702-ba63-8f1a5655744f", KEY, "Example Dapp")
OLD, LATER = SPELLED.uri, SPELLED.wc_uri
session_ids = st.from_regex(r"[A-Za-z0-9_-]{1,128}", fullmatch=True)
keys = st.binary(min_size=32, max_size=32)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=255)
bridge_urls = st.from_regex(
    r"https?://[a-z0-9]{1,20}(\.[a-z]{2,5})?(:8[0-9]{3})?(/[a-zA-Z0-9._~!$'()*,;=&%:@-]{1,20}){0,3}",
    fullmatch=True,
)
TOPIC = RelayPairing(KEY).topic_key.topic
URI_2 = f"wc:{TOPIC}@2?relay-protocol=irn&symKey={KEY.hex()}"
RELAY = "wss://relay.example"
OLDER = f"wc:8a5e5bdc@1?bridge=https%3A%2F%2Fbridge.example&key={KEY.hex()}"
seconds = st.none() | st.integers(0, 10**11)
methods = st.lists(st.from_regex(r"wc_[A-Za-z]{1,20}", fullmatch=True), max_size=3).map(tuple)


@given(bridge_urls, session_ids, keys, names)
def test_both_spellings_of_a_bridge_round_trip(url: str, session_id: str, key: bytes, name: str) -> None:
    pairing = Pairing(url, session_id, key, name)
    assert parse_pairing(pairing.uri) == pairing
    assert parse_pairing(pairing.wc_uri) == Pairing(url, session_id, key)


@given(st.text())
def test_any_text_is_a_pairing_or_refused(text: str) -> None:
    for uri in (text, f"ethereum:wc-{text}", OLD + text, f"wc:{text}", LATER + text, text.join(OLD)):
        with suppress(BadPairingError):
            assert parse_pairing(parse_pairing(uri).wc_uri).key == parse_pairing(uri).key
    for uri in (text, f"wc:{text}", f"wc:{text}@2", URI_2 + text, f"{URI_2}&{text}", text.join(URI_2)):
        with suppress(BadPairingError):
            assert parse_relay_pairing(uri).topic_key.topic in uri.lower()


@each_row("vector", V07["uris"], ids=lambda vector: str(vector["name"]))
def test_uris_are_those_of_the_published_client(vector: dict[str, Any]) -> None:
    pairing = Pairing(vector["bridge"], vector["sessionId"], bytes.fromhex(vector["key"]), vector["name"])
    assert pairing.uri == vector["uri"]
    assert parse_pairing(vector["uri"]) == pairing


def test_the_spellings_are_these_others_are_read_and_none_shows_its_key() -> None:
    session, bridge = "8a5e5bdc-a0e4-4702-ba63-8f1a5655744f", "bridge=https%3A%2F%2Fbridge.example"
    key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    plain = f" ethereum:wc-id@1?symKey={key}%3D&x=1&x=2&bridge=https://bridge.example/&name=A%26B\n"
    assert f"ethereum:wc-{session}@1?name=Example%20Dapp&{bridge}&symKey={key}=" == OLD
    hexadecimal = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    assert f"wc:{session}@1?{bridge}&key={hexadecimal}" == LATER
    assert parse_pairing(plain) == Pairing("https://bridge.example", "id", KEY, "A&B")
    assert KEY.hex() not in repr(parse_pairing(LATER)) + repr(RelayPairing(KEY))
    assert "key" not in repr(parse_pairing(LATER))


@each_row(
    ("uri", "reason"),
    [
        ("", "begins with ethereum:wc- or with wc:"),
        ("ethereum:pay-0xab@1", "begins with"),
        (OLD.replace("@1", "@2"), "@1"),
        (LATER.replace("@1", ""), "@1"),
        (OLD.partition("?")[0], "name"),
        (OLD.replace("Example%20Dapp", ""), "name"),
        (OLD + "&name=Other", "parameter name once"),
        (OLD.replace("symKey", "key"), "parameter symKey"),
        (LATER.replace("bridge=", "brdige="), "parameter bridge"),
        (OLD[:-1], "Base64"),
        (OLD.replace("symKey=", "symKey=%C3%A4"), "Base64"),
        (OLD.partition("&symKey=")[0] + "&symKey=AAAA", "32 bytes, not 3"),
        (LATER + "0", "64 hexadecimal"),
        (LATER[:-1] + "g", "64 hexadecimal"),
        (LATER.replace("8a5e", "8a5e%2F"), "session id"),
        (LATER.replace("https", "ftp"), "http"),
        (LATER.replace("bridge.example", "bridge.example%3Fa"), "query"),
        (LATER.replace("bridge.example", "user%40bridge.example"), "no user"),
    ],
)
def test_fault_of_a_uri_is_named(uri: str, reason: str) -> None:
    with pytest.raises(BadPairingError, match=reason) as refusal:
        parse_pairing(uri)
    assert KEY.hex() not in str(refusal.value)


def test_a_name_a_key_or_a_dapp_that_cannot_be_is_refused() -> None:
    for name in ("", "n" * 256, "\ud800"):
        with pytest.raises(BadPairingError, match="name"):
            Pairing("https://bridge.example", "id", KEY, name)
    with pytest.raises(BadPairingError, match="name"):
        _ = parse_pairing(LATER).uri
    with pytest.raises(BadPairingError, match="32 bytes, not 5"):
        RelayPairing(b"short")
    wrong: list[Any] = [{"generation": "3.x"}, {"project_id": "id"}, {"namespaces": {}}]
    for options in wrong:
        with pytest.raises(ValueError, match="generation"):
            Dapp("https://relay.example", name="Example Dapp", **options)


@given(keys, seconds, methods)
def test_the_spelling_round_trips(key: bytes, expires_s: int | None, named: tuple[str, ...]) -> None:
    pairing = RelayPairing(key, expires_s, named)
    assert parse_relay_pairing(pairing.uri) == pairing


@each_row("vector", V2["uris"])
def test_uris_of_the_published_client_are_read(vector: dict[str, Any]) -> None:
    pairing = parse_relay_pairing(vector["uri"])
    assert pairing.key.hex() == vector["symKey"]
    assert (pairing.expires_s, pairing.methods) == (vector["expiry"], tuple(vector["methods"]))


def test_parameters_come_in_any_order_and_unknown_ones_are_left_aside() -> None:
    expected = RelayPairing(KEY, 1_795_331_066, ("wc_sessionPropose",))
    parameters = [
        f"symKey={KEY.hex().upper()}", "methods=wc_sessionPropose", "expiryTimestamp=1795331066",
        "relay-protocol=irn", "later=1",
    ]  # fmt: skip
    for turn in range(len(parameters)):
        turned = "&".join(parameters[turn:] + parameters[:turn])
        assert parse_relay_pairing(f" wc:{TOPIC}@2?{turned}\n") == expected


@each_row(
    ("uri", "reason"),
    [
        ("", "begins with wc:, a topic and @2"),
        (OLDER, "begins with wc:, a topic and @2"),
        (URI_2.replace("irn", "waku"), "relay-protocol must be irn"),
        (URI_2.replace("relay-protocol=irn", ""), "relay-protocol must be irn"),
        (URI_2[:-1], "symKey must be 64 hexadecimal digits"),
        (URI_2.partition("&symKey")[0], "symKey must be 64 hexadecimal digits"),
        (URI_2.replace(TOPIC, "0" * 64), "topic must be the SHA-256"),
        (f"{URI_2}&symKey=00", "parameter twice"),
        (f"{URI_2}&expiryTimestamp=soon", "expiryTimestamp must be a time in seconds"),
    ],
)
def test_a_uri_that_cannot_be_used_is_refused_with_a_reason(uri: str, reason: str) -> None:
    with pytest.raises(BadPairingError, match=reason) as refusal:
        parse_relay_pairing(uri)
    assert KEY.hex() not in str(refusal.value)


def test_a_wallet_needs_a_relay_that_can_be_used_and_a_uri_of_its_generation_that_has_not_expired() -> None:
    with pytest.raises(BadPairingError, match="give relay_url"):
        Wallet.from_uri(URI_2)
    for relay in ("", "relay.example", "ftp://relay.example", "wss://relay.example?a=b"):
        with pytest.raises(BadPairingError):
            Wallet.from_uri(URI_2, relay_url=relay)
        with pytest.raises(BadPairingError):
            Dapp(relay, name="Example Dapp", generation="2.x")
    with pytest.raises(BadPairingError, match="expired"):
        Wallet.from_uri(RelayPairing(KEY, int(time.time()) - 1).uri, relay_url=RELAY)
    others: tuple[Generation, ...] = ("plain", "0.7", "1.x")
    for generation in others:
        with pytest.raises(BadPairingError, match=r"generation 2\.x, not"):
            Wallet.from_uri(URI_2, relay_url=RELAY, generation=generation)
    with pytest.raises(BadPairingError, match=r"not 2\.x"):
        Wallet.from_uri(OLDER, generation="2.x")


def test_a_pairing_of_2x_names_no_bridge() -> None:
    dapp = Dapp(RELAY, name="Example Dapp", generation="2.x")
    with pytest.raises(UnsupportedError, match="use uri"):
        dapp.pairing  # noqa: B018
    with pytest.raises(UnsupportedError, match="names no bridge"):
        Wallet.from_uri(dapp.uri, relay_url=RELAY).pairing  # noqa: B018
