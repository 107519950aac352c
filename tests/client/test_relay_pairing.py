"""Pairing URIs of generation 2.x: made, read, and refused with a reason."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kit.client import BadPairingError, Dapp, UnsupportedError, Wallet
from bridge_server.kit.client.v2_protocol import RelayPairing, parse_relay_pairing
from tests.support.rows import each_row

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "clients_v2.json").read_text("utf-8"))
KEY = bytes(range(32))
TOPIC = RelayPairing(KEY).topic_key.topic
URI = f"wc:{TOPIC}@2?relay-protocol=irn&symKey={KEY.hex()}"
RELAY = "wss://relay.example"
OLDER = f"wc:8a5e5bdc@1?bridge=https%3A%2F%2Fbridge.example&key={KEY.hex()}"

keys = st.binary(min_size=32, max_size=32)
seconds = st.none() | st.integers(0, 10**11)
methods = st.lists(st.from_regex(r"wc_[A-Za-z]{1,20}", fullmatch=True), max_size=3).map(tuple)


@given(keys, seconds, methods)
def test_the_spelling_round_trips(key: bytes, expires_s: int | None, named: tuple[str, ...]) -> None:
    pairing = RelayPairing(key, expires_s, named)

    assert parse_relay_pairing(pairing.uri) == pairing


@each_row("vector", VECTORS["uris"])
def test_uris_of_the_published_client_are_read(vector: dict[str, Any]) -> None:
    pairing = parse_relay_pairing(vector["uri"])

    assert pairing.key.hex() == vector["symKey"]
    assert (pairing.expires_s, pairing.methods) == (vector["expiry"], tuple(vector["methods"]))


def test_parameters_come_in_any_order_and_unknown_ones_are_left_aside() -> None:
    expected = RelayPairing(KEY, 1_795_331_066, ("wc_sessionPropose",))
    parameters = [
        f"symKey={KEY.hex().upper()}",
        "methods=wc_sessionPropose",
        "expiryTimestamp=1795331066",
        "relay-protocol=irn",
        "later=1",
    ]

    for turn in range(len(parameters)):
        turned = "&".join(parameters[turn:] + parameters[:turn])
        assert parse_relay_pairing(f" wc:{TOPIC}@2?{turned}\n") == expected


@given(st.text())
def test_any_text_is_a_pairing_or_refused(text: str) -> None:
    for uri in (text, f"wc:{text}", f"wc:{text}@2", URI + text, f"{URI}&{text}", text.join(URI)):
        with suppress(BadPairingError):
            assert parse_relay_pairing(uri).topic_key.topic in uri.lower()


@each_row(
    ("uri", "reason"),
    [
        ("", "begins with wc:, a topic and @2"),
        (OLDER, "begins with wc:, a topic and @2"),
        (URI.replace("irn", "waku"), "relay-protocol must be irn"),
        (URI.replace("relay-protocol=irn", ""), "relay-protocol must be irn"),
        (URI[:-1], "symKey must be 64 hexadecimal digits"),
        (URI.partition("&symKey")[0], "symKey must be 64 hexadecimal digits"),
        (URI.replace(TOPIC, "0" * 64), "topic must be the SHA-256"),
        (f"{URI}&symKey=00", "parameter twice"),
        (f"{URI}&expiryTimestamp=soon", "expiryTimestamp must be a time in seconds"),
    ],
)
def test_a_uri_that_cannot_be_used_is_refused_with_a_reason(uri: str, reason: str) -> None:
    with pytest.raises(BadPairingError, match=reason) as refusal:
        parse_relay_pairing(uri)
    assert KEY.hex() not in str(refusal.value)


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(BadPairingError, match="32 bytes, not 5"):
        RelayPairing(b"short")


def test_the_key_is_not_shown() -> None:
    assert KEY.hex() not in repr(RelayPairing(KEY))


def test_a_wallet_needs_the_relay_that_its_uri_does_not_name() -> None:
    with pytest.raises(BadPairingError, match="give relay_url"):
        Wallet.from_uri(URI)


@pytest.mark.parametrize("relay", ["", "relay.example", "ftp://relay.example", "wss://relay.example?a=b"])
def test_a_relay_url_that_cannot_be_used_is_refused(relay: str) -> None:
    with pytest.raises(BadPairingError):
        Wallet.from_uri(URI, relay_url=relay)
    with pytest.raises(BadPairingError):
        Dapp(relay, name="Example Dapp", generation="2.x")


def test_a_uri_that_has_expired_is_refused() -> None:
    past = RelayPairing(KEY, int(time.time()) - 1)

    with pytest.raises(BadPairingError, match="expired"):
        Wallet.from_uri(past.uri, relay_url=RELAY)


@each_row("generation", ["plain", "0.7", "1.x"])
def test_a_uri_of_another_generation_than_the_one_asked_for_is_refused(generation: Any) -> None:
    with pytest.raises(BadPairingError, match=r"generation 2\.x, not"):
        Wallet.from_uri(URI, relay_url=RELAY, generation=generation)
    with pytest.raises(BadPairingError, match=r"not 2\.x"):
        Wallet.from_uri(OLDER, generation="2.x")


def test_a_pairing_of_2x_names_no_bridge() -> None:
    dapp = Dapp(RELAY, name="Example Dapp", generation="2.x")

    with pytest.raises(UnsupportedError, match="use uri"):
        dapp.pairing  # noqa: B018
    with pytest.raises(UnsupportedError, match="names no bridge"):
        Wallet.from_uri(dapp.uri, relay_url=RELAY).pairing  # noqa: B018


@each_row("given", [{"generation": "3.x"}, {"project_id": "id"}, {"namespaces": {}}])
def test_a_dapp_that_cannot_be_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="generation"):
        Dapp(RELAY.replace("wss", "https"), name="Example Dapp", **given)
