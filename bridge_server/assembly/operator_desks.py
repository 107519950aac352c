"""The services that answer an operator, for the admin API and for the console."""

from dataclasses import dataclass

from bridge_server.admin.accounts.service import AccountViews
from bridge_server.admin.approvals.service import ApprovalDesk
from bridge_server.admin.neighbours import Neighbours
from bridge_server.admin.outbox.gathering import AttemptsEverywhere
from bridge_server.admin.outbox.service import PUSHES, OutboxDesk
from bridge_server.admin.pushes.service import PushDesk
from bridge_server.admin.settings.service import SettingsDesk
from bridge_server.admin.wallet.service import WalletDesk
from bridge_server.admin.webhooks.service import WebhookTests
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.observation import noted
from bridge_server.assembly.projects import ProjectServices
from bridge_server.assembly.push import PushServices
from bridge_server.assembly.wallet import AssembledWallet
from bridge_server.inbox.reading import InboxReads
from bridge_server.notify.audience_store import AudienceStore
from bridge_server.notify.audiences import Audiences
from bridge_server.notify.history_store import HistoryStore
from bridge_server.notify.service import Notifications
from bridge_server.outbox.attempts import AttemptLog
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.outbox.message_store import MessageStore
from bridge_server.wallet.approval_store import ApprovalStore
from bridge_server.wallet.transactions.listing_store import TransactionListing
from bridge_server.web.health import Readiness


@dataclass(frozen=True, slots=True)
class OperatorDesks:
    """One service per subject of the admin API."""

    projects: ProjectServices
    history: HistoryStore
    audiences: Audiences
    accounts: AccountViews
    inbox: InboxReads
    approvals: ApprovalDesk
    wallet: WalletDesk
    outbox: OutboxDesk
    attempts: AttemptsEverywhere
    pushes: PushDesk
    webhook_tests: WebhookTests
    settings: SettingsDesk


def operator_desks(
    foundation: Foundation,
    projects: ProjectServices,
    notifications: Notifications,
    inbox: InboxReads,
    wallet: AssembledWallet,
    push: PushServices,
    dispatcher: Dispatcher,
    readiness: Readiness,
    neighbours: Neighbours | None,
) -> OperatorDesks:
    """The services over those of the rooms."""
    database, clock, observation = foundation.database, foundation.clock, foundation.observation
    history = HistoryStore(database)
    outbox = OutboxDesk(
        MessageStore(database, pushes=PUSHES),
        dispatcher,
        clock,
        AttemptLog(clock) if observation is None else observation.attempts,
        foundation.webhooks.headers,
    )
    return OperatorDesks(
        projects=projects,
        history=history,
        audiences=Audiences(AudienceStore(database), notifications),
        accounts=AccountViews(
            projects.projects,
            projects.subscriptions,
            history,
            projects.device_states,
            clock,
            projects.account_limit,
        ),
        inbox=inbox,
        approvals=ApprovalDesk(ApprovalStore(database), wallet.approvals, clock),
        wallet=WalletDesk(wallet.accounts, TransactionListing(database), foundation.settings.audit_file),
        outbox=outbox,
        attempts=AttemptsEverywhere(outbox, neighbours),
        pushes=PushDesk(push.server),
        webhook_tests=WebhookTests(
            noted(foundation.webhook_sender, observation), clock, foundation.ids, foundation.stopping
        ),
        settings=SettingsDesk(foundation.live.shown, readiness),
    )
