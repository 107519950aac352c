"""Keccak-256, the hash that Ethereum uses: SHA-3 before its padding was changed for the standard."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from threading import local
from typing import Any, TypeAlias

Hash: TypeAlias = Callable[[bytes], bytes]

_DIGEST_BYTES = 32
_CAPACITY_BYTES = 64
_ROUNDS = 24
_PADDING = 0x01
_DIGEST_OF_NOTHING = bytes.fromhex("c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470")


def fastest_hash(library: Any) -> Hash:
    """The quickest Keccak-256 that this release of the library offers: the one-shot function behind its SHA-3
    takes a third of the time of a hash object, but is not public. The hash object serves where the function,
    or a name that makes its arguments (see `_one_shot`), is missing or does something else.
    """
    try:
        one_shot = _one_shot(library)
        if one_shot(b"") == _DIGEST_OF_NOTHING:
            return one_shot
    except (AttributeError, TypeError, RuntimeError):
        pass
    return lambda data: library.new(digest_bits=8 * _DIGEST_BYTES, data=data).digest()


def _one_shot(library: Any) -> Hash:
    keccak_oneshot = library._raw_keccak_lib.keccak_oneshot
    size_of, new_buffer, content_of = library.c_size_t, library.create_string_buffer, library.get_raw_buffer
    digest_bytes, capacity_bytes = size_of(_DIGEST_BYTES), size_of(_CAPACITY_BYTES)
    rounds, padding = library.c_ubyte(_ROUNDS), library.c_ubyte(_PADDING)

    own = local()  # a buffer for each thread: C runs beside other threads

    def digest(data: bytes) -> bytes:
        try:
            output = own.output
        except AttributeError:
            output = own.output = new_buffer(_DIGEST_BYTES)
        size = size_of(len(data))
        failure = keccak_oneshot(data, size, output, digest_bytes, capacity_bytes, rounds, padding)
        if failure:
            raise RuntimeError(f"Keccak-256 failed with code {failure}")
        return content_of(output)  # type: ignore[no-any-return]

    return digest


def keccak256(data: bytes) -> bytes:
    """The 32 bytes of Keccak-256 over the given bytes. Several threads may call it at once."""
    return _hash()(data)


@cache
def _hash() -> Hash:
    return fastest_hash(import_module("Crypto.Hash.keccak"))  # late: it takes 2 MiB, with a parser of C
