"""The wallet as its operator sees it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from bridge_server.admin.wallet.errors import AccountNotFoundError, AlwaysOpenError
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.audit_history import AuditPage, read_history
from bridge_server.wallet.models import Address, TransactionState, WalletAccount
from bridge_server.wallet.transactions.listing_store import TransactionListing, TransactionPage


class WalletDesk:
    """Shows accounts, transactions and signatures; unlocks and locks accounts."""

    def __init__(self, accounts: Accounts, transactions: TransactionListing, audit_file: Path) -> None:
        self._accounts = accounts
        self._transactions = transactions
        self._audit_file = audit_file

    def accounts(self) -> Sequence[WalletAccount]:
        """Every account. Raises UnavailableError."""
        return self._accounts.accounts()

    async def unlock(self, address: Address, passphrase: str, seconds: int | None) -> WalletAccount:
        """Open an account's key. Raises AccountNotFoundError, and what `Accounts.unlock` raises."""
        self._require_lockable(address)
        await self._accounts.unlock(address, passphrase, seconds)
        return self._account(address)

    def lock(self, address: Address) -> WalletAccount:
        """Forget an account's key. Raises AccountNotFoundError, AlwaysOpenError."""
        self._require_lockable(address)
        self._accounts.lock(address)
        return self._account(address)

    async def transactions(
        self, state: TransactionState | None, before: int | None, limit: int
    ) -> TransactionPage:
        """A page of transactions, newest first."""
        return await self._transactions.page(state, before, limit)

    async def signatures(self, before: int | None, limit: int) -> AuditPage:
        """A page of the audit log, newest first. Raises UnavailableError."""
        return await asyncio.to_thread(read_history, self._audit_file, before, limit)

    def _require_lockable(self, address: Address) -> None:
        account = self._account(address)
        if account.is_lasting:
            raise AlwaysOpenError(address)

    def _account(self, address: Address) -> WalletAccount:
        for account in self._accounts.accounts():
            if account.address == address:
                return account
        raise AccountNotFoundError(address)
