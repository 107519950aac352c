"""The console's pages of notifications: composing, sent notifications, analytics, inboxes."""

import os

from bridge_server.assembly.console import ConsoleParts
from bridge_server.assembly.foundation import Foundation
from bridge_server.console.analytics.handlers import AnalyticsPage
from bridge_server.console.compose.handlers import ComposePage
from bridge_server.console.compose.sendings import Sendings
from bridge_server.console.inbox.handlers import InboxPreview
from bridge_server.console.models import ConsolePage
from bridge_server.console.notifications.handlers import NotificationsPage
from bridge_server.console.project_choice import ProjectChoice


def notification_pages(foundation: Foundation, parts: ConsoleParts) -> tuple[ConsolePage, ...]:
    """The pages in the order of the navigation."""
    desks = parts.desks
    projects, limit = desks.projects.projects, desks.projects.account_limit
    choice = ProjectChoice(projects, limit)
    sendings = Sendings(desks.audiences, foundation.clock, os.urandom)
    return (
        ComposePage(choice, sendings, desks.history, os.urandom).page(),
        NotificationsPage(choice, desks.history, desks.accounts, limit).page(),
        AnalyticsPage(choice, projects).page(),
        InboxPreview(desks.inbox, desks.accounts, limit).page(),
    )
