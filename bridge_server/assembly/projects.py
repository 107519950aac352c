"""Projects, their subscribers and devices: services that several rooms and the operator's commands call."""

import os
from typing import NamedTuple

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.kernel.token_bucket import Limit
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.projects.devices import DeviceStateStore
from bridge_server.projects.service import Projects, account_limit
from bridge_server.projects.store import NotificationTypeStore, ProjectStore
from bridge_server.projects.subscriptions import PROJECT_EVENT, Subscriptions, SubscriptionStore
from bridge_server.settings.settings import Settings


class ProjectServices(NamedTuple):
    """The services of projects."""

    projects: Projects
    subscriptions: Subscriptions
    device_states: DeviceStateStore
    account_limit: Limit
    """The limit per account of projects that have no limit of their own."""


def project_services(foundation: Foundation) -> ProjectServices:
    """The services of projects over the foundation's database."""
    database, clock, ids = foundation.database, foundation.clock, foundation.ids
    projects = Projects(ProjectStore(database), NotificationTypeStore(database), clock, os.urandom)
    projects.subscribe_to(foundation.events)
    return ProjectServices(
        projects,
        Subscriptions(SubscriptionStore(database), clock, ids),
        DeviceStateStore(database),
        foundation.live.held(_account_limit),
    )


def projects_room(services: ProjectServices) -> Room:
    """Deletes what deleted projects have left behind. Projects have no endpoints of their own."""
    return Room(
        name="projects",
        sweeps=(services.projects.sweep,),
        gone_handlers={PROJECT_EVENT: _keep_webhook},
    )


async def _keep_webhook(_: OutgoingMessage) -> None:
    """Change nothing: the operator has set a project's webhook, and removes it."""


def _account_limit(settings: Settings) -> Limit:
    return account_limit(settings.account_rate_per_hour, settings.account_burst)
