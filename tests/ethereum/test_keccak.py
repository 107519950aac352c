"""Keccak-256: published values, every block boundary, and the library's own hash object as the judge."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from Crypto.Hash import keccak
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum.keccak import fastest_hash, keccak256
from tests.support.rows import each_row

BLOCK_BYTES = 136


def judged(data: bytes) -> bytes:
    return keccak.new(digest_bits=256, data=data).digest()


@each_row(
    ("data", "digest"),
    [
        (b"", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
        (b"abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"),
        (
            b"The quick brown fox jumps over the lazy dog",
            "4d741b6f1eb29cb2a9b9911c82f56fa8d73b04959d3d9d222895df6c0b28aa15",
        ),
    ],
)
def test_published_digests(data: bytes, digest: str) -> None:
    assert keccak256(data).hex() == digest


@each_row("blocks", [1, 2, 3])
@each_row("offset", [-2, -1, 0, 1, 2])
def test_messages_around_the_end_of_a_block(blocks: int, offset: int) -> None:
    data = bytes(number % 251 for number in range(blocks * BLOCK_BYTES + offset))

    assert keccak256(data) == judged(data)


@given(st.binary(max_size=3 * BLOCK_BYTES))
def test_any_message_has_the_digest_that_the_hash_object_gives_it(data: bytes) -> None:
    assert keccak256(data) == judged(data)


def test_threads_do_not_mix_their_digests() -> None:
    messages = [b"%d" % number * 5_000 for number in range(400)]

    with ThreadPoolExecutor(8) as threads:
        digests = list(threads.map(keccak256, messages))

    assert digests == [judged(message) for message in messages]


def test_a_release_without_the_one_shot_function_hashes_all_the_same() -> None:
    plain = fastest_hash(SimpleNamespace(new=keccak.new))

    assert plain(b"abc") == keccak256(b"abc")


@each_row("failure_code", [0, 2])
def test_a_release_whose_one_shot_function_does_something_else_hashes_all_the_same(failure_code: int) -> None:
    other = SimpleNamespace(
        _raw_keccak_lib=SimpleNamespace(keccak_oneshot=lambda *arguments: failure_code),
        c_size_t=int,
        c_ubyte=int,
        create_string_buffer=bytearray,
        get_raw_buffer=bytes,
        new=keccak.new,
    )

    assert fastest_hash(other)(b"abc") == keccak256(b"abc")
