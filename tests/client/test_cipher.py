"""Payloads, keys and tokens as the published clients make and read them, and as the RFCs say.

White-box: vectors name their nonces, keys and ids, which clients draw at random.
"""

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
from bridge_server.kit.client.v2_protocol import KeyPair, TopicKey, open_from_sender, read_public_key
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
RELAY = "wss://relay.example"
NOW_S = 1_700_000_000
PUBLISHED = [(Cipher, each) for each in V07["payloads"]] + [(SocketCipher, each) for each in V1["payloads"]]


@pytest.mark.parametrize(("cipher", "vector"), PUBLISHED)
def test_payloads_of_the_published_clients_are_opened_and_sealed_alike(
    cipher: type[Cipher | SocketCipher], vector: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    published = cipher(bytes.fromhex(vector["key"]))
    iv = bytes.fromhex(vector["payload"]["iv"])
    monkeypatch.setattr(pairing, "token_bytes", lambda size: iv[:size])
    assert published.open(vector["payload"]) == vector["content"]
    assert published.seal(vector["content"]) == vector["payload"]


@given(st.sampled_from(["data", "hmac", "iv"]), st.integers(min_value=0), st.integers(1, 15))
def test_a_payload_with_any_digit_changed_does_not_open(name: str, place: int, change: int) -> None:
    vector = V07["payloads"][0]
    digits = list(vector["payload"][name])
    place %= len(digits)
    digits[place] = f"{int(digits[place], 16) ^ change:x}"
    with pytest.raises(BadPayloadError, match="touched on its way"):
        Cipher(bytes.fromhex(vector["key"])).open({**vector["payload"], name: "".join(digits)})


def test_two_payloads_of_one_content_differ_and_open_as_text_and_in_capitals() -> None:
    first, second = Cipher(KEY).seal("same"), Cipher(KEY).seal("same")
    assert first["iv"] != second["iv"]
    assert first["data"] != second["data"]
    shouted = {**first, "hmac": first["hmac"].upper(), "iv": first["iv"].upper()}
    for payload in (first, shouted, json.dumps(second)):
        assert Cipher(KEY).open(payload) == "same"


def _sealed(padded: bytes) -> dict[str, str]:
    """A payload with a sound HMAC over whatever the blocks hold."""
    data = AES.new(KEY, AES.MODE_CBC, bytes(16)).encrypt(padded).hex()
    mac = HMAC.new(KEY, (data + "00" * 16).encode(), SHA256).hexdigest()
    return {"data": data, "hmac": mac, "iv": "00" * 16}


@each_row(
    ("reason", "payloads"),
    [
        ("see its data", [None, "not JSON", [], {}, {"data": ""}, {"data": 7}, {"data": "ab" * 15},
                          {"data": "zz" * 16}, {"data": "ab " * 32}]),
        ("see its hmac", [{"data": "ab" * 16}, {"data": "ab" * 16, "hmac": "ab" * 31}]),
        ("see its iv", [{"data": "ab" * 16, "hmac": "ab" * 32},
                        {"data": "ab" * 16, "hmac": "ab" * 32, "iv": "ab" * 17}]),
        ("something else", [*(_sealed(pad(plain, 16)) for plain in (
            b"", b"not JSON", b"[]", b'"data"', b"{}", b'{"data":\xff}', b"7",
        )), _sealed(b'{"data": 1}' + bytes(5))]),
        ("another key", [Cipher(bytes(32)).seal("secret")]),
        ("touched on its way", [SocketCipher(KEY).seal({})]),
    ],
)  # fmt: skip
def test_a_malformed_or_foreign_payload_is_refused(reason: str, payloads: list[object]) -> None:
    for payload in payloads:
        with pytest.raises(BadPayloadError, match=reason):
            Cipher(KEY).open(payload)


def test_keys_of_another_size_and_payloads_of_another_generation_are_refused() -> None:
    for size in (0, 16, 31, 33):
        for cipher in (Cipher, TopicKey):
            with pytest.raises(ValueError, match=f"32 bytes, not {size}"):
                cipher(bytes(size))
    with pytest.raises(BadPayloadError):
        SocketCipher(KEY).open(Cipher(KEY).seal({}))


def test_the_shared_secret_is_that_of_rfc_7748(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v2_protocol, "derived", lambda secret: secret)
    alice = KeyPair(bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
    bob = KeyPair(bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
    assert alice.public.hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert bob.public.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    secret = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert alice.symmetric_key(bob.public).hex() == bob.symmetric_key(alice.public).hex() == secret


def test_the_derivation_is_hkdf_as_rfc_5869_has_it_with_32_bytes_and_neither_salt_nor_info() -> None:
    secret = bytes([0x0B]) * 22
    published = bytes.fromhex(
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
    )
    assert HKDF(secret, 42, b"", SHA256) == published
    assert v2_protocol.derived(secret) == published[:32]


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
    assert sealed[:-16] == b"\0" + nonce + ciphertext


def test_keys_and_envelopes_of_the_published_client_are_agreed_on_and_opened() -> None:
    for vector in V2["agreements"]:
        own = KeyPair(bytes.fromhex(vector["private"]))
        key = TopicKey(own.symmetric_key(read_public_key(vector["peer"])))
        found = (own.public.hex(), key.key.hex(), key.topic)
        assert found == (vector["public"], vector["symKey"], vector["topic"])
    for vector in V2["envelopes"]:
        assert TopicKey(bytes.fromhex(vector["symKey"])).open(vector["envelope"]) == vector["content"]
    for vector in V2["type_1"]:
        receiver = KeyPair(bytes.fromhex(vector["receiver_private"]))
        sender, content = open_from_sender(receiver, vector["envelope"])
        assert (sender.hex(), content) == (vector["sender"], vector["content"])


@given(st.binary(min_size=32, max_size=32), json_values)
def test_payloads_and_envelopes_round_trip(key: bytes, content: Any) -> None:
    assert Cipher(key).open(Cipher(key).seal(content)) == content
    sealed = TopicKey(key).seal(content)
    sender, receiver = KeyPair(), KeyPair()
    assert base64.b64decode(sealed, validate=True)[0] == 0
    assert TopicKey(key).open(sealed) == TopicKey(key).open(sealed.rstrip("=")) == content
    envelope = v2_protocol.seal_from(sender, receiver.public, content)
    assert open_from_sender(receiver, envelope) == (sender.public, content)


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


def test_bad_public_keys_and_envelopes_without_json_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (None, 1, "", "zz" * 32, "00" * 31, "00" * 33):
        with pytest.raises(BadPayloadError, match="64 hexadecimal digits"):
            read_public_key(text)
    with pytest.raises(BadPayloadError, match="no X25519 key"):
        KeyPair().symmetric_key(bytes(32))
    monkeypatch.setattr(orjson, "dumps", lambda _: b"{")
    key = TopicKey(bytes(32))
    with pytest.raises(BadPayloadError, match="something else than JSON"):
        key.open(key.seal(None))


def parts_of(token: str) -> list[Any]:
    """The header and the claims."""
    return [json.loads(base64url.decode(part)) for part in token.split(".")[:2]]


def test_the_token_is_that_of_the_published_client(monkeypatch: pytest.MonkeyPatch) -> None:
    vector = V2["token"]
    monkeypatch.setattr(v2_session, "token_hex", lambda _: vector["sub"])
    own = ClientId(bytes.fromhex(vector["seed"]))
    parts = parts_of(own.token(vector["aud"], vector["iat"]))
    assert own.did == vector["did"]
    assert parts == parts_of(vector["jwt"]) == [{"alg": "EdDSA", "typ": "JWT"}, parts[1]]


@given(st.binary(min_size=32, max_size=32))
def test_the_did_names_the_key_that_has_signed(seed: bytes) -> None:
    own = ClientId(seed)
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    assert own.did.startswith("did:key:z6Mk")
    assert own.did == f"did:key:z{base58(bytes.fromhex('ed01') + public)}"
    verify(own.token(RELAY, NOW_S), public)
    with pytest.raises(InvalidSignature):
        verify(ClientId().token(RELAY, NOW_S), public)


def verify(token: str, public: bytes) -> None:
    """Raises InvalidSignature."""
    signed, _, signature = token.rpartition(".")
    Ed25519PublicKey.from_public_bytes(public).verify(base64url.decode(signature), signed.encode())


def test_a_token_names_the_relay_and_holds_for_a_day() -> None:
    own = ClientId()
    claims, again = (parts_of(own.token(RELAY, NOW_S))[1] for _ in range(2))
    assert claims == {**claims, "iss": own.did, "aud": RELAY, "iat": NOW_S, "exp": NOW_S + 86_400}
    assert claims["sub"] != again["sub"]


@each_row(("data", "text"), [(b"", ""), (b"\0\0\x01", "112"), (b"Hello World!", "2NEpo7TZRRrLZSi2U")])
def test_base58_is_that_of_the_internet_draft(data: bytes, text: str) -> None:
    assert base58(data) == text
