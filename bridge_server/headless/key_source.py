"""The source of a wallet's accounts: words, keys, or another wallet."""

from collections.abc import Sequence
from dataclasses import dataclass

from bridge_server.ethereum.mnemonic import DEVELOPMENT_MNEMONIC
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.headless.own_keys import OwnKeys
from bridge_server.headless.remote_wallet import RemoteWallet
from bridge_server.headless.signer import Signer
from bridge_server.wallet.private_keys import development_keys

_USUAL_ACCOUNTS = 10
"""The accounts of a mnemonic that a session can be switched to."""


@dataclass(frozen=True, slots=True)
class KeySource:
    """One source of accounts; without any, the development mnemonic. Raises ValueError."""

    mnemonic: str | None
    private_keys: Sequence[SigningKey]
    rpc: str | None
    rpc_token: str | None
    node_url: str | None

    def __post_init__(self) -> None:
        if sum((self.mnemonic is not None, bool(self.private_keys), self.rpc is not None)) > 1:
            raise ValueError("accounts come from a mnemonic, from private keys or from rpc: name one of them")
        if self.rpc is not None and self.node_url is not None:
            raise ValueError("the wallet at rpc sends transactions itself: leave out the node")

    def numbers(self, accounts: int | Sequence[int] | None) -> Sequence[int] | None:
        """The numbers of the accounts that dapps are given; None is all."""
        if isinstance(accounts, int):
            return range(accounts)
        if accounts is None and self.rpc is None and not self.private_keys:
            return [0]
        return accounts

    def signer(self, chain_id: int | None, numbers: Sequence[int] | None) -> Signer:
        """The signer, not opened yet. Raises MnemonicError."""
        if self.rpc is not None:
            return RemoteWallet(self.rpc, self.rpc_token, chain_id)
        return OwnKeys(self.private_keys or self._derived(numbers), chain_id, self.node_url)

    def _derived(self, numbers: Sequence[int] | None) -> list[SigningKey]:
        count = max(_USUAL_ACCOUNTS, *(number + 1 for number in numbers or [0]))
        return development_keys(self.mnemonic or DEVELOPMENT_MNEMONIC, count)
