"""The console's pages of what goes out: signatures and transactions of the wallet."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from bridge_server.assembly.console import ConsoleParts
from bridge_server.assembly.foundation import Foundation
from bridge_server.console.changes import PageChanges
from bridge_server.console.models import ConsolePage
from bridge_server.console.wallet.handlers import WalletPage
from bridge_server.kernel.events import DomainEvent
from bridge_server.wallet.events import ApprovalsChanged
from bridge_server.wallet.transactions.events import (
    TransactionsMoved,
    TransactionsOwed,
    TransactionsPostponed,
)

OUT_TOPICS: Mapping[str, Sequence[type[DomainEvent]]] = MappingProxyType(
    {"wallet": (ApprovalsChanged, TransactionsMoved, TransactionsOwed, TransactionsPostponed)}
)
"""Their topics. Keys and lines of the audit log announce themselves."""


def note_what_goes_out(parts: ConsoleParts, changes: PageChanges) -> None:
    """Note the changes of these pages that no commit announces."""
    note_wallet = partial(changes.note, "wallet")
    parts.wallet.accounts.on_unlocked(note_wallet)
    parts.wallet.accounts.on_locked(note_wallet)
    parts.wallet.audit.on_line(note_wallet)


def wallet_page(foundation: Foundation, parts: ConsoleParts) -> ConsolePage:
    """The page of the wallet; it can sign with the setting `admin_wallet`."""
    desks = parts.desks
    return WalletPage(desks.approvals, desks.wallet, may_sign=foundation.settings.admin_wallet).page()
