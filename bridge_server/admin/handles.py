"""Handles of sessions and calls: an operator names them without their ids, which are capabilities."""

import base64
import binascii
from functools import lru_cache
from uuid import UUID

from Crypto.Cipher import AES

KEY_BYTES = 16
_HANDLE_CHARACTERS = 22
_SHOWN_CHARACTERS = 8


class Handles:
    """Turns an id into its handle and back, by a key of 16 bytes that ends with the process.

    The ids that the server gives are UUIDs, which are one block of the cipher. Other ids have no handle.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = AES.new(key, AES.MODE_ECB)  # one block: no two ids share a part of their handles
        self.of = lru_cache(maxsize=4_096)(self._of)

    def id_of(self, handle: str) -> str | None:
        """The id that has this handle; None for a text that is no handle."""
        try:
            sealed = base64.b64decode(handle + "==", altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            return None
        if len(handle) != _HANDLE_CHARACTERS or len(sealed) != AES.block_size:
            return None
        return str(UUID(bytes=self._cipher.decrypt(sealed)))

    def _of(self, any_id: str) -> str | None:
        """The handle of this id; None for an id that the server has not made."""
        try:
            uuid = UUID(any_id)
        except ValueError:
            return None
        if str(uuid) != any_id:
            return None
        return base64.urlsafe_b64encode(self._cipher.encrypt(uuid.bytes)).rstrip(b"=").decode()


def shortened(any_id: str) -> str:
    """The first characters of an id."""
    return any_id if len(any_id) <= _SHOWN_CHARACTERS else f"{any_id[:_SHOWN_CHARACTERS]}…"
