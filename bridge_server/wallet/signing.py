"""Signing messages and typed data: with an open key, after approval, and with a line in the audit log."""

import json
from enum import StrEnum
from typing import Any

from bridge_server.ethereum.hex_data import hex_of
from bridge_server.ethereum.messages import personal_message_hash
from bridge_server.ethereum.typed_data import TypedData
from bridge_server.kernel.clock import Clock
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.approvals import Approvals
from bridge_server.wallet.audit_file import AuditLog
from bridge_server.wallet.models import Address, AuditEntry, Caller


class TypedDataScheme(StrEnum):
    """The scheme by which typed data is signed."""

    EIP712 = "eip712"
    """The hash of the 66-byte preimage, as every verifier expects."""
    EIP191 = "eip191"
    """The 66-byte preimage as a message, behind the prefix of messages (the protocol's rule for messages)."""


class Signing:
    """Signs for accounts whose keys are open, or with a passphrase. Signatures are 65 bytes: r, s and v."""

    def __init__(
        self,
        accounts: Accounts,
        approvals: Approvals,
        audit: AuditLog,
        clock: Clock,
        scheme: TypedDataScheme = TypedDataScheme.EIP712,
    ) -> None:
        self._accounts = accounts
        self._approvals = approvals
        self._audit = audit
        self._clock = clock
        self._scheme = scheme

    @property
    def asks_for_approval(self) -> bool:
        """Whether a signature may take as long as a human does."""
        return self._approvals.is_on

    async def sign_message(
        self,
        method: str,
        address: Address,
        message: bytes,
        caller: Caller,
        passphrase: str | None = None,
    ) -> bytes:
        """Sign a message (EIP-191, 0x45).

        Raises UnknownAccountError, LockedError, WrongPassphraseError, SignatureRejectedError;
        UnavailableError when the log cannot be written.
        """
        return await self._sign(method, address, personal_message_hash(message), message, caller, passphrase)

    async def sign_typed_data(
        self, method: str, address: Address, typed_data: TypedData, document: Any, caller: Caller
    ) -> bytes:
        """Sign typed data (EIP-712). An approval shows the JSON `document` that it was read from.

        Raises what `sign_message` raises.
        """
        is_message = self._scheme is TypedDataScheme.EIP191
        digest = personal_message_hash(typed_data.preimage) if is_message else typed_data.digest
        return await self._sign(method, address, digest, document, caller, None)

    async def _sign(
        self,
        method: str,
        address: Address,
        digest: bytes,
        subject: Any,
        caller: Caller,
        passphrase: str | None,
    ) -> bytes:
        if passphrase is None:
            key = self._accounts.key(address)
        else:
            key = await self._accounts.key_with(address, passphrase)
        approval_id = None
        if self._approvals.is_on:
            approval_id = await self._approvals.approved(method, address, _json_of(subject), caller)
            if passphrase is None:
                key = self._accounts.key(address)  # it may have been locked since
        signature = key.sign(digest)
        self._audit.append(
            AuditEntry(self._clock.now_ms(), method, address, hex_of(digest), caller, approval_id)
        )
        return signature


def _json_of(subject: Any) -> bytes:
    """The data to sign as JSON text, for an approval. Its integers may have any size."""
    shown = hex_of(subject) if isinstance(subject, bytes) else subject
    return json.dumps(shown, ensure_ascii=False).encode()
