"""Keccak-256, private keys, their signatures and the signers of texts: published values, and what is none."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from types import SimpleNamespace

import pytest
from coincurve import PrivateKey
from Crypto.Hash import keccak
from hypothesis import example, given
from hypothesis import strategies as st

from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.keccak import fastest_hash, keccak256
from bridge_server.ethereum.signing_key import (
    SignatureError,
    SigningKey,
    SigningKeyError,
    personal_message_hash,
    recover_address,
)
from tests.support.rows import each_row

BLOCK_BYTES = 136
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
digests = st.binary(min_size=32, max_size=32)
DIGEST = personal_message_hash(b"Some data")
KEY = PrivateKey.from_int(0xC0FFEE)


def judged(data: bytes) -> bytes:
    return keccak.new(digest_bits=256, data=data).digest()


def test_published_digests() -> None:
    digests = {
        b"": "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
        b"abc": "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45",
        b"The quick brown fox jumps over the lazy dog": (
            "4d741b6f1eb29cb2a9b9911c82f56fa8d73b04959d3d9d222895df6c0b28aa15"
        ),
    }
    assert {data: keccak256(data).hex() for data in digests} == digests


@given(st.binary(max_size=3 * BLOCK_BYTES))
@example(bytes(BLOCK_BYTES - 1))
@example(bytes(BLOCK_BYTES))
def test_any_message_has_the_digest_that_the_hash_object_gives_it(data: bytes) -> None:
    assert keccak256(data) == judged(data)


def test_threads_do_not_mix_their_digests() -> None:
    messages = [b"%d" % number * 5_000 for number in range(400)]

    with ThreadPoolExecutor(8) as threads:
        digests = list(threads.map(keccak256, messages))

    assert digests == [judged(message) for message in messages]


def test_a_release_whose_one_shot_function_is_missing_or_another_hashes_all_the_same() -> None:
    releases = [SimpleNamespace(new=keccak.new)]
    for failure_code in (0, 2):
        parts = {"c_size_t": int, "c_ubyte": int, "create_string_buffer": bytearray, "get_raw_buffer": bytes}
        library = SimpleNamespace(keccak_oneshot=lambda *_, code=failure_code: code)
        releases.append(SimpleNamespace(new=keccak.new, _raw_keccak_lib=library, **parts))

    for release in releases:
        assert fastest_hash(release)(b"abc") == keccak256(b"abc")


def test_published_deterministic_signatures() -> None:
    """Vectors of RFC 6979 for secp256k1 that Bitcoin's libraries share: r and s."""
    signatures = {
        1: "934b1ea10a4b3c1757e2b0c017d0b6143ce3c9a7e6a4a49860d7a6ab210ee3d8"
        "2442ce9d2b916064108014783e923ec36b49743e2ffa1c4496f01a512aafd9e5",
        ORDER - 1: "fd567d121db66e382991534ada77a6bd3106f0a1098c231e47993447cd6af2d0"
        "6b39cd0eb1bc8603e159ef5c20a5c8ad685a45b06ce9bebed3f153d10d93bed5",
    }
    digest = sha256(b"Satoshi Nakamoto").digest()
    made = {number: SigningKey(number.to_bytes(32)).sign(digest)[:64].hex() for number in signatures}

    assert made == signatures


@given(st.integers(1, ORDER - 1), digests)
def test_a_signature_has_a_low_s_and_leads_back_to_the_account(secret: int, digest: bytes) -> None:
    key = SigningKey(secret.to_bytes(32))
    signature = key.sign(digest)
    r, s, parity = key.sign_parity(digest)

    assert signature == spelled(r, s, 27 + parity)
    assert 0 < s <= ORDER // 2
    assert recover_address(digest, signature) == key.address


def test_a_number_outside_of_the_range_and_another_length_are_no_key() -> None:
    for number in (0, ORDER, ORDER + 1, 2**256 - 1):
        with pytest.raises(SigningKeyError, match="between 0 and the order of the curve"):
            SigningKey(number.to_bytes(32))
    for length in (0, 1, 31, 33, 64):
        with pytest.raises(SigningKeyError, match=f"32 bytes, and this one {length}$"):
            SigningKey(b"\1" * length)
    with pytest.raises(TypeError):
        pickle.dumps(SigningKey(keccak256(b"key")))


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


def signed_by(digest: bytes, key: PrivateKey = KEY) -> tuple[int, int, int]:
    """r, s and v, 0 or 1."""
    signature = key.sign_recoverable(digest, hasher=None)
    return int.from_bytes(signature[:32]), int.from_bytes(signature[32:64]), signature[64]


def spelled(r: int, s: int, v: int) -> bytes:
    return r.to_bytes(32) + s.to_bytes(32) + bytes([v])


@given(st.integers(1, ORDER - 1), digests)
def test_the_signer_is_recovered_with_both_spellings_of_v(secret: int, digest: bytes) -> None:
    key = PrivateKey.from_int(secret)
    address = checksummed("0x" + keccak256(key.public_key.format(compressed=False)[1:])[12:].hex())
    r, s, v = signed_by(digest, key)

    for spelling in (v, v + 27):
        assert recover_address(digest, spelled(r, s, spelling)) == address


def test_a_signature_of_another_size_with_another_v_or_numbers_out_of_range_is_refused() -> None:
    r, s, v = signed_by(DIGEST)
    faults = {
        "0, 1, 27 or 28": [spelled(r, s, other) for other in sorted(set(range(256)) - {0, 1, 27, 28})],
        "between 0 and the order": [
            signature
            for number in (0, ORDER, ORDER + 1, 2**256 - 1)
            for signature in (spelled(number, s, v), spelled(r, number, v))
        ],
        "lower half": [spelled(r, ORDER // 2 + 1, v), spelled(r, ORDER - s, 1 - v)],
        "not a point": [spelled(5, 1, 0)],
    }
    for length in (0, 1, 64, 66, 130):
        faults[f"65 bytes, and this one {length}"] = [bytes(length)]

    assert recover_address(DIGEST, spelled(r, ORDER // 2, v)).startswith("0x")
    for reason, signatures in faults.items():
        for signature in signatures:
            with pytest.raises(SignatureError, match=reason):
                recover_address(DIGEST, signature)


def test_a_digest_has_32_bytes() -> None:
    for length in (0, 31, 33, 64):
        with pytest.raises(SignatureError, match="32 bytes"):
            recover_address(bytes(length), spelled(*signed_by(DIGEST)))
        with pytest.raises(ValueError, match="32 bytes"):
            SigningKey(b"\1" * 32).sign(bytes(length))


@given(st.binary(max_size=40), st.binary(max_size=70) | st.binary(min_size=65, max_size=65))
@example(bytes(32), bytes(65))
def test_any_bytes_have_a_signer_or_are_refused(digest: bytes, signature: bytes) -> None:
    with suppress(SignatureError):
        address = recover_address(digest, signature)
        assert address == checksummed(address.lower())
