"""Payloads, keys and tokens as the published clients make and read them, and as the RFCs say."""

import base64
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from Crypto.Cipher import AES, ChaCha20_Poly1305
from Crypto.Hash import HMAC, SHA256
from Crypto.Protocol.KDF import HKDF
from Crypto.Util.Padding import pad
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel import base64url
from bridge_server.kit.client import BadPayloadError, Cipher, pairing, v2_protocol, v2_session
from bridge_server.kit.client.v1 import SocketCipher
from bridge_server.kit.client.v2_protocol import (
    KeyPair,
    TopicKey,
    derived,
    open_from_sender,
    read_public_key,
    seal_from,
)
from bridge_server.kit.client.v2_session import ClientId, base58
from tests.support.rows import each_row

V07, V1, V2 = (
    json.loads((Path(__file__).parents[1] / "vectors" / f"clients_{generation}.json").read_text("utf-8"))
    for generation in ("v07", "v1", "v2")
)
KEY = bytes(range(32))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)
ALICE = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
BOB = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"
RELAY = "wss://relay.example"
NOW_S = 1_700_000_000


PUBLISHED = [(Cipher, vector) for vector in V07["payloads"]] + [
    (SocketCipher, vector) for vector in V1["payloads"]
]


@pytest.mark.parametrize(("cipher", "vector"), PUBLISHED)
def test_payloads_of_the_published_clients_are_opened_and_sealed_alike(
    cipher: type[Cipher | SocketCipher], vector: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    published = cipher(bytes.fromhex(vector["key"]))
    iv = bytes.fromhex(vector["payload"]["iv"])
    monkeypatch.setattr(pairing, "token_bytes", lambda size: iv[:size])

    opened = published.open(vector["payload"])

    assert opened == vector["content"]
    assert published.seal(vector["content"]) == vector["payload"]


@given(json_values, st.binary(min_size=32, max_size=32))
def test_encrypted_payload_is_decrypted(content: Any, key: bytes) -> None:
    assert Cipher(key).open(Cipher(key).seal(content)) == content


@given(st.data())
def test_a_payload_with_any_digit_changed_does_not_open(data: st.DataObject) -> None:
    vector = V07["payloads"][0]
    payload = dict(vector["payload"])
    name = data.draw(st.sampled_from(sorted(payload)))
    place = data.draw(st.integers(0, len(payload[name]) - 1))
    digit = data.draw(st.sampled_from("0123456789abcdef").filter(lambda digit: digit != payload[name][place]))
    payload[name] = payload[name][:place] + digit + payload[name][place + 1 :]

    with pytest.raises(BadPayloadError, match="touched on its way"):
        Cipher(bytes.fromhex(vector["key"])).open(payload)


def test_two_payloads_of_one_content_differ_and_open_as_text_and_in_capitals() -> None:
    first, second = Cipher(KEY).seal("same"), Cipher(KEY).seal("same")
    assert first["iv"] != second["iv"]
    assert first["data"] != second["data"]

    shouted = {**first, "hmac": first["hmac"].upper(), "iv": first["iv"].upper()}
    for payload in (first, shouted, json.dumps(second)):
        assert Cipher(KEY).open(payload) == "same"


@each_row(
    ("payload", "name"),
    [
        (None, "data"),
        ("not JSON", "data"),
        ([], "data"),
        ({}, "data"),
        ({"data": ""}, "data"),
        ({"data": 7}, "data"),
        ({"data": "ab" * 15}, "data"),
        ({"data": "zz" * 16}, "data"),
        ({"data": "ab " * 32}, "data"),
        ({"data": "ab" * 16}, "hmac"),
        ({"data": "ab" * 16, "hmac": "ab" * 31}, "hmac"),
        ({"data": "ab" * 16, "hmac": "ab" * 32}, "iv"),
        ({"data": "ab" * 16, "hmac": "ab" * 32, "iv": "ab" * 17}, "iv"),
    ],
)
def test_malformed_payload_is_refused_by_name(payload: object, name: str) -> None:
    with pytest.raises(BadPayloadError, match=f"see its {name}"):
        Cipher(KEY).open(payload)


def test_keys_of_another_size_are_refused() -> None:
    for size in (0, 16, 31, 33):
        for cipher in (Cipher, TopicKey):
            with pytest.raises(ValueError, match=f"32 bytes, not {size}"):
                cipher(bytes(size))


@each_row(
    "padded",
    [
        *(pad(plain, 16) for plain in (b"", b"not JSON", b"[]", b'"data"', b"{}", b'{"data":\xff}', b"7")),
        b'{"data": 1}' + bytes(5),
    ],
)
def test_a_payload_that_holds_something_else_than_json_is_refused(padded: bytes) -> None:
    with pytest.raises(BadPayloadError, match="something else"):
        Cipher(KEY).open(_sealed(padded))


def _sealed(padded: bytes) -> dict[str, str]:
    """A payload with a sound HMAC over whatever the blocks hold."""
    data = AES.new(KEY, AES.MODE_CBC, bytes(16)).encrypt(padded).hex()
    mac = HMAC.new(KEY, (data + "00" * 16).encode(), SHA256).hexdigest()
    return {"data": data, "hmac": mac, "iv": "00" * 16}


def test_payloads_of_another_key_or_generation_are_not_opened() -> None:
    with pytest.raises(BadPayloadError, match="another key"):
        Cipher(bytes(32)).open(Cipher(KEY).seal("secret"))
    with pytest.raises(BadPayloadError):
        SocketCipher(KEY).open(Cipher(KEY).seal({}))
    with pytest.raises(BadPayloadError):
        Cipher(KEY).open(SocketCipher(KEY).seal({}))


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


@each_row("vector", V2["agreements"])
def test_two_sides_agree_on_the_key_and_topic_of_the_published_client(vector: dict[str, str]) -> None:
    own = KeyPair(bytes.fromhex(vector["private"]))

    key = TopicKey(own.symmetric_key(read_public_key(vector["peer"])))

    assert (own.public.hex(), key.key.hex(), key.topic) == (
        vector["public"],
        vector["symKey"],
        vector["topic"],
    )


@each_row("vector", V2["envelopes"])
def test_envelopes_of_the_published_client_are_opened(vector: dict[str, Any]) -> None:
    key = TopicKey(bytes.fromhex(vector["symKey"]))

    assert key.open(vector["envelope"]) == vector["content"]


@each_row("vector", V2["type_1"])
def test_envelopes_that_name_their_sender_are_opened(vector: dict[str, Any]) -> None:
    receiver = KeyPair(bytes.fromhex(vector["receiver_private"]))

    sender, content = open_from_sender(receiver, vector["envelope"])

    assert (sender.hex(), content) == (vector["sender"], vector["content"])


@given(st.binary(min_size=32, max_size=32), json_values)
def test_envelopes_round_trip(key: bytes, content: Any) -> None:
    sealed = TopicKey(key).seal(content)
    sender, receiver = KeyPair(), KeyPair()

    assert base64.b64decode(sealed, validate=True)[0] == 0
    assert TopicKey(key).open(sealed) == content
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


def test_a_public_key_is_64_hexadecimal_digits_and_gives_a_secret() -> None:
    for text in (None, 1, "", "zz" * 32, "00" * 31, "00" * 33):
        with pytest.raises(BadPayloadError, match="64 hexadecimal digits"):
            read_public_key(text)
    with pytest.raises(BadPayloadError, match="no X25519 key"):
        KeyPair().symmetric_key(bytes(32))


def test_envelopes_that_hold_no_json_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    key = TopicKey(bytes(32))
    monkeypatch.setattr(orjson, "dumps", lambda _: b"{")

    with pytest.raises(BadPayloadError, match="something else than JSON"):
        key.open(key.seal(None))


def test_the_token_is_that_of_the_published_client(monkeypatch: pytest.MonkeyPatch) -> None:
    vector = V2["token"]
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


@each_row(("data", "text"), [(b"", ""), (b"\0\0\x01", "112"), (b"Hello World!", "2NEpo7TZRRrLZSi2U")])
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
