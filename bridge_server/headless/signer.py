"""Signers of a headless wallet: keys of its own, or another wallet's JSON-RPC."""

from typing import Any, Protocol


class Signer(Protocol):
    """Signs and sends for calls that were approved."""

    async def open(self) -> None:
        """Learn the accounts and the chain. Raises BridgeError."""
        ...

    async def close(self) -> None:
        """Let go of the connections."""
        ...

    def reset(self) -> None:
        """Forget sent transactions."""
        ...

    @property
    def addresses(self) -> list[str]:
        """All accounts, with their checksums."""
        ...

    @property
    def chain_id(self) -> int:
        """The chain that sessions begin on."""
        ...

    async def sign(self, method: str, params: Any, chain_id: int) -> Any:
        """The result of a method that signs or sends. Raises BridgeError."""
        ...

    async def read(self, method: str, params: Any) -> Any:
        """The result of a method that needs no key. Raises BridgeError."""
        ...
