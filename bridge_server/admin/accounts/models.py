"""An account as an operator sees it."""

from collections.abc import Sequence
from dataclasses import dataclass

from bridge_server.notify.history_models import AccountBucket, AccountNotification
from bridge_server.projects.caip10 import Account
from bridge_server.projects.device_states import DeviceDelivery, DeviceState
from bridge_server.projects.models import Project, Subscription


@dataclass(frozen=True, slots=True)
class ProjectView:
    """The account in one project: its subscription if it has one, its bucket, its last notifications."""

    project: Project
    subscription: Subscription | None
    bucket: AccountBucket
    notifications: Sequence[AccountNotification]


@dataclass(frozen=True, slots=True)
class AccountView:
    """The account in its projects, its devices, and the messages to these that are still in the outbox."""

    account: Account
    projects: Sequence[ProjectView]
    devices: Sequence[DeviceState]
    deliveries: Sequence[DeviceDelivery]
