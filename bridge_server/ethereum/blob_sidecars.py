"""Blob sidecars: they travel beside a blob transaction (EIP-4844; with a proof for each cell, EIP-7594).

The node verifies the proofs. Here their number and lengths are checked, and that the commitments have the
hashes which the transaction names.
"""

from collections.abc import Sequence
from hashlib import sha256

from bridge_server.ethereum.rlp import Item, RlpError
from bridge_server.ethereum.transaction_fields import TransactionFields

BLOB_HASH_VERSION = b"\x01"
GAS_OF_A_BLOB = 131_072
"""The gas of one blob, which is a gas of its own."""

_BLOB_BYTES = 131_072
_COMMITMENT_BYTES = 48
_PROOF_BYTES = 48
_CELLS_OF_A_BLOB = 128
_CELL_PROOFS_VERSION = 1


def blob_hash(commitment: bytes) -> bytes:
    """The 32 bytes by which a transaction names the blob that was committed to."""
    return BLOB_HASH_VERSION + sha256(commitment).digest()[1:]


def check_sidecar(items: Sequence[Item], blob_hashes: Sequence[bytes]) -> None:
    """Raise RlpError unless these items, which follow the transaction, belong to its blobs."""
    fields = TransactionFields("the blobs' wrapper", items, 3, 4)
    proofs_of_a_blob = 1
    if len(items) == 4:
        fields.number("wrapper_version", _CELL_PROOFS_VERSION, _CELL_PROOFS_VERSION)
        proofs_of_a_blob = _CELLS_OF_A_BLOB
    blobs = fields.bytes_list("blobs", _BLOB_BYTES)
    commitments = fields.bytes_list("commitments", _COMMITMENT_BYTES)
    proofs = fields.bytes_list("proofs", _PROOF_BYTES)
    if len(blobs) != len(blob_hashes) or len(proofs) != len(blobs) * proofs_of_a_blob:
        raise RlpError(
            f"blobs must be as many as the transaction names ({len(blob_hashes)}, and there are "
            f"{len(blobs)}), with {proofs_of_a_blob} of the proofs each (there are {len(proofs)})"
        )
    if [blob_hash(commitment) for commitment in commitments] != list(blob_hashes):
        raise RlpError("commitments must be those whose hashes the transaction names")
