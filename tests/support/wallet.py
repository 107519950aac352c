"""A wallet that signs sign-in messages."""

from dataclasses import dataclass
from typing import Any

from coincurve import PrivateKey

from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.sign_in_message import SignInMessage, write_sign_in_message
from bridge_server.ethereum.signing_key import personal_message_hash


@dataclass(frozen=True, slots=True)
class Wallet:
    """A wallet with one key, which follows from the number."""

    number: int

    @property
    def address(self) -> str:
        """With its checksum."""
        public = self._key.public_key.format(compressed=False)
        return checksummed(f"0x{keccak256(public[1:])[-20:].hex()}")

    @property
    def account(self) -> str:
        """The address on the first chain, as CAIP-10 spells it."""
        return f"eip155:1:{self.address}"

    def sign(self, text: str) -> str:
        """The signature of `personal_sign`, in hexadecimal."""
        signature = self._key.sign_recoverable(personal_message_hash(text.encode()), hasher=None)
        return f"0x{signature[:64].hex()}{27 + signature[64]:02x}"

    def message(self, **fields: Any) -> str:
        """A sign-in message of this wallet with these fields (of `SignInMessage`)."""
        return write_sign_in_message(SignInMessage(**{"address": self.address, "chain_id": 1, **fields}))

    @property
    def _key(self) -> PrivateKey:
        return PrivateKey.from_int(self.number)
