"""Blob sidecars in both forms; they are not in the transaction's hash."""

from typing import Any

from bridge_server.ethereum import rlp
from bridge_server.ethereum.transactions import read_raw_transaction
from tests.ethereum.signed_transactions import COMMITMENTS, FIELDS, refused, signed
from tests.support.rows import each_row

BLOBS = [bytes(131_072), b"\1" * 131_072]
BARE = signed(3, FIELDS[3])


def wrapped(*sidecar: Any) -> bytes:
    return b"\x03" + rlp.encode([rlp.decode(BARE[1:]), *sidecar])


def assert_read_as_the_bare_one(raw: bytes) -> None:
    assert read_raw_transaction(raw) == read_raw_transaction(BARE)


def test_with_a_proof_for_each_blob() -> None:
    assert_read_as_the_bare_one(wrapped(BLOBS, COMMITMENTS, [bytes(48)] * 2))


def test_with_a_proof_for_each_cell() -> None:
    assert_read_as_the_bare_one(wrapped(b"\x01", BLOBS, COMMITMENTS, [bytes(48)] * 256))


@each_row(
    ("sidecar", "reason"),
    [
        ([], "must have 3 or 4 items"),
        ([BLOBS, COMMITMENTS], "must have 3 or 4 items, and has 2"),
        ([BLOBS, COMMITMENTS, [bytes(48)]], r"there are 1\)"),
        ([BLOBS, COMMITMENTS, [bytes(48)] * 3], r"there are 3\)"),
        ([BLOBS[:1], COMMITMENTS, [bytes(48)]], r"\(2, and there are 1\)"),
        ([BLOBS, COMMITMENTS[:1], [bytes(48)] * 2], "whose hashes"),
        ([BLOBS, COMMITMENTS[::-1], [bytes(48)] * 2], "whose hashes"),
        ([[b"\1"] * 2, COMMITMENTS, [bytes(48)] * 2], r"blobs\[0\] must have 131072 bytes"),
        ([BLOBS, [b"\1"] * 2, [bytes(48)] * 2], r"commitments\[0\] must have 48 bytes"),
        ([BLOBS, COMMITMENTS, [bytes(48), b""]], r"proofs\[1\] must have 48 bytes"),
        ([b"", BLOBS, COMMITMENTS, [bytes(48)] * 256], "wrapper_version must lie between 1"),
        ([b"\x02", BLOBS, COMMITMENTS, [bytes(48)] * 256], "wrapper_version must lie between 1"),
        ([b"\x01", BLOBS, COMMITMENTS, [bytes(48)] * 2], "128 of the proofs each"),
        ([BLOBS, COMMITMENTS, b""], "proofs must be a list"),
    ],
)
def test_a_wrapper_of_another_shape_is_refused(sidecar: Any, reason: str) -> None:
    refused(wrapped(*sidecar), reason)
