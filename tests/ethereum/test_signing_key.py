"""Private keys: published nonces (RFC 6979), low s, and every signature recovered."""

import pickle
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.signing_key import (
    SigningKey,
    SigningKeyError,
    personal_message_hash,
    recover_address,
)
from tests.ethereum.vectors import key_of, raw_bytes, vectors
from tests.support.rows import each_row

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

# Key, text that SHA-256 makes the digest of, r and s: the vectors of RFC 6979 for secp256k1 that Bitcoin's
# libraries share.
DETERMINISTIC = [
    (
        1,
        "Satoshi Nakamoto",
        "934b1ea10a4b3c1757e2b0c017d0b6143ce3c9a7e6a4a49860d7a6ab210ee3d8",
        "2442ce9d2b916064108014783e923ec36b49743e2ffa1c4496f01a512aafd9e5",
    ),
    (
        1,
        "All those moments will be lost in time, like tears in rain. Time to die...",
        "8600dbd41e348fe5c9465ab92d23e3db8b98b873beecd930736488696438cb6b",
        "547fe64427496db33bf66019dacbf0039c04199abb0122918601db38a72cfc21",
    ),
    (
        ORDER - 1,
        "Satoshi Nakamoto",
        "fd567d121db66e382991534ada77a6bd3106f0a1098c231e47993447cd6af2d0",
        "6b39cd0eb1bc8603e159ef5c20a5c8ad685a45b06ce9bebed3f153d10d93bed5",
    ),
    (
        0xF8B8AF8CE3C7CCA5E300D33939540C10D45CE001B8F252BFBC57BA0342904181,
        "Alan Turing",
        "7063ae83e7f62bbb171798131b4a0564b956930092b33b07b395615d9ec7e15c",
        "58dfcc1e00a35e1572f366ffe34ba0fc47db1e7189759b9fb233c5b05ab388ea",
    ),
]

digests = st.binary(min_size=32, max_size=32)
secrets = st.integers(1, ORDER - 1).map(lambda number: number.to_bytes(32))


def test_the_account_of_a_key() -> None:
    key = SigningKey(bytes(31) + b"\1")

    assert key.address == "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf"


@each_row(("number", "text", "r", "s"), DETERMINISTIC)
def test_published_deterministic_signatures(number: int, text: str, r: str, s: str) -> None:
    signature = SigningKey(number.to_bytes(32)).sign(sha256(text.encode()).digest())

    assert signature[:64].hex() == r + s


@each_row("vector", vectors("messages.json"))
def test_messages_are_signed_as_another_implementation_signs_them(vector: dict[str, str]) -> None:
    key = key_of(vector)
    digest = personal_message_hash(raw_bytes(vector["message"]))

    signature = key.sign(digest)

    assert digest == raw_bytes(vector["digest"])
    assert signature == raw_bytes(vector["signature"])
    assert recover_address(digest, signature) == key.address


@given(secrets, digests)
def test_a_signature_has_a_low_s_and_leads_back_to_the_account(secret: bytes, digest: bytes) -> None:
    key = SigningKey(secret)

    signature = key.sign(digest)

    assert len(signature) == 65
    assert signature[64] in (27, 28)
    assert 0 < int.from_bytes(signature[32:64]) <= ORDER // 2
    assert recover_address(digest, signature) == key.address


@given(secrets, digests)
def test_both_forms_of_a_signature_are_equal(secret: bytes, digest: bytes) -> None:
    key = SigningKey(secret)

    r, s, parity = key.sign_parity(digest)

    assert key.sign(digest) == r.to_bytes(32) + s.to_bytes(32) + bytes([27 + parity])


@given(secrets, digests)
def test_signatures_are_deterministic(secret: bytes, digest: bytes) -> None:
    assert SigningKey(secret).sign(digest) == SigningKey(secret).sign(digest)


@each_row("number", [0, ORDER, ORDER + 1, 2**256 - 1])
def test_a_number_outside_of_the_range_is_no_key(number: int) -> None:
    with pytest.raises(SigningKeyError, match="between 0 and the order of the curve"):
        SigningKey(number.to_bytes(32))


@each_row("length", [0, 1, 31, 33, 64])
def test_a_key_has_32_bytes(length: int) -> None:
    with pytest.raises(SigningKeyError, match=f"32 bytes, and this one {length}$"):
        SigningKey(b"\1" * length)


@each_row("length", [0, 31, 33, 64])
def test_only_a_digest_is_signed(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        SigningKey(b"\1" * 32).sign(bytes(length))


@each_row("secret", [b"\x5a" * 32, b"\xff" * 32])
def test_no_repr_has_the_secret(secret: bytes) -> None:
    try:
        texts = [repr(SigningKey(secret)), str(SigningKey(secret))]
    except SigningKeyError as error:
        texts = [str(error), repr(error), repr(error.__cause__), str(error.__context__)]

    for text in texts:
        assert secret.hex() not in text
        assert str(int.from_bytes(secret)) not in text
        assert repr(secret) not in text


def test_a_key_is_not_written_anywhere_by_accident() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(SigningKey(keccak256(b"key")))
