"""Signed texts and their signers: published signatures, fresh ones, and everything that is none."""

from contextlib import suppress

import pytest
from coincurve import PrivateKey
from hypothesis import example, given
from hypothesis import strategies as st

from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.signing_key import SignatureError, personal_message_hash, recover_address
from tests.support.rows import each_row

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
DIGEST = personal_message_hash(b"Some data")
KEY = PrivateKey.from_int(0xC0FFEE)

# Key, text, hash, signature and address, as the manuals of eth-account, web3.js and ethers show them.
PUBLISHED = [
    (
        "b25c7db31feed9122727bf0939dc769a96564b2de4c4726d035b36ecf1e5b364",
        "I♥SF",
        "1476abb745d423bf09273f1afd887d951181d25adc66c4834a70491911b7f750",
        "e6ca9bba58c88611fad66a6ce8f996908195593807c4b38bd528d2cff09d4eb3"
        "3e5bfbbf4d3e39b1a2fd816a7680c19ebebaf3a141b239934ad43cb33fcec8ce1c",
        "0x5ce9454909639D2D17A3F753ce7d93fa0b9aB12E",
    ),
    (
        "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318",
        "Some data",
        "1da44b586eb0729ff70a73c326926f6ed5a25f5b056e7f47fbc6e58d86871655",
        "b91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd"
        "6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c",
        "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23",
    ),
    (
        "0123456789012345678901234567890123456789012345678901234567890123",
        "hello world",
        "d9eba16ed0ecae432b71fe008c98cc872bb4cc214d3220a36f365326cf807d68",
        "ddd0a7290af9526056b4e35a077b9a11b513aa0028ec6c9880948544508f3c63"
        "265e99e47ad31bb2cab9646c504576b3abc6939a1710afc08cbf3034d73214b81c",
        "0x14791697260E4c9A71f18484C9f997B308e59325",
    ),
]


def signed(digest: bytes, key: PrivateKey = KEY) -> bytes:
    return key.sign_recoverable(digest, hasher=None)


def address_of(key: PrivateKey) -> str:
    return checksummed("0x" + keccak256(key.public_key.format(compressed=False)[1:])[12:].hex())


def spelled(r: int, s: int, v: int) -> bytes:
    return r.to_bytes(32) + s.to_bytes(32) + bytes([v])


def taken_apart(signature: bytes) -> tuple[int, int, int]:
    return int.from_bytes(signature[:32]), int.from_bytes(signature[32:64]), signature[64]


@each_row(("key", "text", "digest", "signature", "address"), PUBLISHED)
def test_published_signatures_have_their_signers(
    key: str, text: str, digest: str, signature: str, address: str
) -> None:
    hashed = personal_message_hash(text.encode())
    ours = signed(hashed, PrivateKey.from_hex(key))

    assert hashed.hex() == digest
    assert recover_address(hashed, bytes.fromhex(signature)) == address
    assert taken_apart(ours)[:2] == taken_apart(bytes.fromhex(signature))[:2]


@each_row("length", [0, 9, 10, 99, 100])
def test_the_prefix_counts_the_bytes_of_the_message_in_decimal(length: int) -> None:
    prefix = f"\x19Ethereum Signed Message:\n{length}".encode()

    assert personal_message_hash(b"m" * length) == keccak256(prefix + b"m" * length)


@given(st.integers(1, ORDER - 1), st.binary(min_size=32, max_size=32))
def test_the_signer_is_recovered_with_both_spellings_of_v(secret: int, digest: bytes) -> None:
    key = PrivateKey.from_int(secret)
    r, s, v = taken_apart(signed(digest, key))

    assert recover_address(digest, spelled(r, s, v)) == address_of(key)
    assert recover_address(digest, spelled(r, s, v + 27)) == address_of(key)


def test_another_text_has_another_signer() -> None:
    assert recover_address(personal_message_hash(b"Some dato"), signed(DIGEST)) != address_of(KEY)


def test_another_v_is_refused() -> None:
    r, s, _ = taken_apart(signed(DIGEST))

    for v in sorted(set(range(256)) - {0, 1, 27, 28}):
        with pytest.raises(SignatureError, match="0, 1, 27 or 28"):
            recover_address(DIGEST, spelled(r, s, v))


@each_row("length", [0, 1, 64, 66, 130])
def test_a_signature_has_65_bytes(length: int) -> None:
    with pytest.raises(SignatureError, match=f"65 bytes, and this one {length}"):
        recover_address(DIGEST, bytes(length))


@each_row("length", [0, 31, 33])
def test_a_digest_has_32_bytes(length: int) -> None:
    with pytest.raises(SignatureError, match="32 bytes"):
        recover_address(bytes(length), signed(DIGEST))


@each_row("number", [0, ORDER, ORDER + 1, 2**256 - 1])
def test_r_and_s_lie_between_zero_and_the_order(number: int) -> None:
    r, s, v = taken_apart(signed(DIGEST))

    with pytest.raises(SignatureError, match="between 0 and the order"):
        recover_address(DIGEST, spelled(number, s, v))
    with pytest.raises(SignatureError, match="between 0 and the order"):
        recover_address(DIGEST, spelled(r, number, v))


def test_the_twin_with_the_high_s_is_refused() -> None:
    r, s, v = taken_apart(signed(DIGEST))

    with pytest.raises(SignatureError, match="lower half"):
        recover_address(DIGEST, spelled(r, ORDER - s, 1 - v))


def test_the_highest_s_of_the_lower_half_is_taken_and_the_next_is_not() -> None:
    r, _, v = taken_apart(signed(DIGEST))

    assert recover_address(DIGEST, spelled(r, ORDER // 2, v)).startswith("0x")
    with pytest.raises(SignatureError, match="lower half"):
        recover_address(DIGEST, spelled(r, ORDER // 2 + 1, v))


def test_an_r_that_is_no_point_of_the_curve_is_refused() -> None:
    with pytest.raises(SignatureError, match="not a point"):
        recover_address(DIGEST, spelled(5, 1, 0))


@given(st.binary(max_size=40), st.binary(max_size=70) | st.binary(min_size=65, max_size=65))
@example(bytes(32), bytes(65))
def test_any_bytes_have_a_signer_or_are_refused(digest: bytes, signature: bytes) -> None:
    with suppress(SignatureError):
        address = recover_address(digest, signature)
        assert address == checksummed(address.lower())


@given(st.integers(1, ORDER - 1), st.integers(1, ORDER // 2), st.integers(0, 1))
def test_any_numbers_in_range_have_a_signer_or_are_refused(r: int, s: int, v: int) -> None:
    with suppress(SignatureError):
        address = recover_address(DIGEST, spelled(r, s, v))
        assert address == checksummed(address.lower())
