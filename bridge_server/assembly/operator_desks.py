"""The services that answer an operator, for the admin API and for the console."""

from dataclasses import dataclass

from bridge_server.admin.accounts.service import AccountViews
from bridge_server.admin.approvals.service import ApprovalDesk
from bridge_server.admin.outbox.purposes import PUSHES
from bridge_server.admin.outbox.service import OutboxDesk
from bridge_server.admin.pushes.service import PushDesk
from bridge_server.admin.settings.service import SettingsDesk
from bridge_server.admin.wallet.service import WalletDesk
from bridge_server.admin.webhooks.service import WebhookTests
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.observation import Observation, noted
from bridge_server.assembly.operator_rooms import Operated
from bridge_server.assembly.projects import ProjectServices
from bridge_server.inbox.reading import InboxReads
from bridge_server.notify.audience_store import AudienceStore
from bridge_server.notify.audiences import Audiences
from bridge_server.notify.history_store import HistoryStore
from bridge_server.outbox.message_store import MessageStore
from bridge_server.wallet.approval_store import ApprovalStore
from bridge_server.wallet.transactions.listing_store import TransactionListing


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
    pushes: PushDesk
    webhook_tests: WebhookTests
    settings: SettingsDesk


def operator_desks(foundation: Foundation, observation: Observation, operated: Operated) -> OperatorDesks:
    """The services of the operator, over the services of the rooms."""
    database, clock = foundation.database, foundation.clock
    projects, wallet = operated.projects, operated.wallet
    history = HistoryStore(database)
    return OperatorDesks(
        projects=projects,
        history=history,
        audiences=Audiences(AudienceStore(database), operated.notifications),
        accounts=AccountViews(
            projects.projects,
            projects.subscriptions,
            history,
            projects.device_states,
            clock,
            projects.account_limit,
        ),
        inbox=operated.inbox,
        approvals=ApprovalDesk(ApprovalStore(database), wallet.approvals, clock),
        wallet=WalletDesk(wallet.accounts, TransactionListing(database), foundation.settings.audit_file),
        outbox=OutboxDesk(
            MessageStore(database, pushes=PUSHES),
            operated.dispatcher,
            clock,
            observation.attempts,
            foundation.webhooks.headers,
        ),
        pushes=PushDesk(operated.push.server),
        webhook_tests=WebhookTests(
            noted(foundation.webhook_sender, observation), clock, foundation.ids, foundation.stopping
        ),
        settings=SettingsDesk(foundation.live.shown, operated.readiness),
    )
