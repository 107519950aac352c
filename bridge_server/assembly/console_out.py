"""The console's pages of what goes out: signatures, webhooks, pushes."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from bridge_server.assembly.console import ConsoleParts
from bridge_server.assembly.foundation import Foundation
from bridge_server.console.changes import PageChanges
from bridge_server.console.models import ConsolePage
from bridge_server.console.pushes.handlers import PushesPage
from bridge_server.console.wallet.handlers import WalletPage
from bridge_server.console.webhooks.handlers import WebhooksPage
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


def note_what_goes_out(foundation: Foundation, parts: ConsoleParts, changes: PageChanges) -> None:
    """Note the changes of these pages that no commit announces."""
    if foundation.observation is not None:
        foundation.observation.attempts.on_attempt(partial(changes.note, "outbox"))
    note_wallet = partial(changes.note, "wallet")
    parts.operated.wallet.accounts.on_unlocked(note_wallet)
    parts.operated.wallet.accounts.on_locked(note_wallet)
    parts.operated.wallet.audit.on_line(note_wallet)


def out_pages(foundation: Foundation, parts: ConsoleParts) -> tuple[ConsolePage, ...]:
    """The pages; that of the wallet can sign with the setting `admin_wallet`."""
    desks = parts.desks
    return (
        WalletPage(desks.approvals, desks.wallet, may_sign=foundation.settings.admin_wallet).page(),
        WebhooksPage(desks.outbox, desks.webhook_tests).page(),
        PushesPage(desks.outbox, desks.pushes).page(),
    )
