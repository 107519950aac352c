"""Key agreement and envelopes of generation 2.x: the RFCs' vectors, and the published client's."""

import base64
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from Crypto.Cipher import ChaCha20_Poly1305
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kit.client import BadPayloadError, v2_protocol
from bridge_server.kit.client.v2_protocol import (
    KeyPair,
    TopicKey,
    derived,
    open_from_sender,
    read_public_key,
    seal_from,
)
from tests.client.test_cipher import json_values
from tests.support.rows import each_row

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "clients_v2.json").read_text("utf-8"))
ALICE = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
BOB = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"


def test_the_shared_secret_is_that_of_rfc_7748(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v2_protocol, "derived", lambda secret: secret)
    alice, bob = KeyPair(bytes.fromhex(ALICE)), KeyPair(bytes.fromhex(BOB))

    assert alice.public.hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert bob.public.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    secret = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert alice.symmetric_key(bob.public).hex() == secret
    assert bob.symmetric_key(alice.public).hex() == secret


def test_the_derivation_is_hkdf_as_rfc_5869_has_it_with_32_bytes_and_neither_salt_nor_info() -> None:
    secret = bytes([0x0B]) * 22
    published = bytes.fromhex(
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
    )

    assert HKDF(secret, 42, b"", SHA256) == published
    assert derived(secret) == published[:32]


def test_the_cipher_is_that_of_rfc_8439(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
        b"sunscreen would be it."
    )
    key, nonce = bytes(range(0x80, 0xA0)), bytes.fromhex("070000004041424344454647")
    published = ChaCha20_Poly1305.new(key=key, nonce=nonce)
    published.update(bytes.fromhex("50515253c0c1c2c3c4c5c6c7"))
    ciphertext, tag = published.encrypt_and_digest(text)
    monkeypatch.setattr(v2_protocol, "token_bytes", lambda _: nonce)
    monkeypatch.setattr(orjson, "dumps", lambda _: text)

    sealed = base64.b64decode(TopicKey(key).seal(None))

    assert tag.hex() == "1ae10b594f09e26a7e902ecbd0600691"
    assert ciphertext.hex().startswith("d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6")
    assert sealed[:13] == b"\0" + nonce
    assert sealed[13:-16] == ciphertext


@each_row("vector", VECTORS["agreements"])
def test_two_sides_agree_on_the_key_and_topic_of_the_published_client(vector: dict[str, str]) -> None:
    own = KeyPair(bytes.fromhex(vector["private"]))

    key = TopicKey(own.symmetric_key(read_public_key(vector["peer"])))

    assert (own.public.hex(), key.key.hex(), key.topic) == (
        vector["public"],
        vector["symKey"],
        vector["topic"],
    )


@each_row("vector", VECTORS["envelopes"])
def test_envelopes_of_the_published_client_are_opened(vector: dict[str, Any]) -> None:
    key = TopicKey(bytes.fromhex(vector["symKey"]))

    assert key.open(vector["envelope"]) == vector["content"]


@each_row("vector", VECTORS["type_1"])
def test_envelopes_that_name_their_sender_are_opened(vector: dict[str, Any]) -> None:
    receiver = KeyPair(bytes.fromhex(vector["receiver_private"]))

    sender, content = open_from_sender(receiver, vector["envelope"])

    assert (sender.hex(), content) == (vector["sender"], vector["content"])


@given(st.binary(min_size=32, max_size=32), json_values)
def test_envelopes_round_trip(key: bytes, content: Any) -> None:
    sealed = TopicKey(key).seal(content)

    assert base64.b64decode(sealed, validate=True)[0] == 0
    assert TopicKey(key).open(sealed) == content


@given(json_values)
def test_envelopes_that_name_their_sender_round_trip(content: Any) -> None:
    sender, receiver = KeyPair(), KeyPair()

    assert open_from_sender(receiver, seal_from(sender, receiver.public, content)) == (sender.public, content)


def test_an_envelope_may_lack_the_padding_of_its_base64() -> None:
    key = v2_protocol.TopicKey(bytes(range(32)))
    envelopes = [key.seal("x" * length) for length in range(4)]

    assert any(envelope.endswith("=") for envelope in envelopes)
    assert [key.open(envelope.rstrip("=")) for envelope in envelopes] == ["", "x", "xx", "xxx"]


@given(st.integers(min_value=0), st.integers(1, 255))
def test_an_envelope_that_was_touched_is_not_opened(place: int, change: int) -> None:
    key = TopicKey(bytes(32))
    raw = bytearray(base64.b64decode(key.seal({"id": 1})))
    raw[place % len(raw)] ^= change

    with pytest.raises(BadPayloadError):
        key.open(base64.b64encode(raw).decode())


@given(st.text() | st.binary().map(lambda raw: base64.b64encode(raw).decode()) | json_values)
def test_anything_else_is_no_envelope(text: Any) -> None:
    with pytest.raises(BadPayloadError):
        TopicKey(bytes(32)).open(text)
    with pytest.raises(BadPayloadError):
        open_from_sender(KeyPair(bytes(31) + b"\1"), text)


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes, not 31"):
        TopicKey(bytes(31))


@each_row("text", [None, 1, "", "zz" * 32, "00" * 31, "00" * 33])
def test_a_public_key_is_64_hexadecimal_digits(text: object) -> None:
    with pytest.raises(BadPayloadError, match="64 hexadecimal digits"):
        read_public_key(text)


def test_a_public_key_that_gives_no_secret_is_refused() -> None:
    with pytest.raises(BadPayloadError, match="no X25519 key"):
        KeyPair().symmetric_key(bytes(32))


def test_envelopes_that_hold_no_json_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    key = TopicKey(bytes(32))
    monkeypatch.setattr(orjson, "dumps", lambda _: b"{")

    with pytest.raises(BadPayloadError, match="something else than JSON"):
        key.open(key.seal(None))
