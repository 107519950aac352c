"""The operator's composition root: what a command works with, on the database of a server that may run."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from bridge_server.assembly.parts import sender_settings
from bridge_server.assembly.push_channels import PushChannels
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.kernel.events import Events
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.stopping import Stopping
from bridge_server.outbox.channels import Channels
from bridge_server.outbox.sender import WebhookSender
from bridge_server.projects.device_state_store import DeviceStateStore
from bridge_server.projects.projects import Projects
from bridge_server.projects.store import ProjectStore
from bridge_server.projects.subscription_store import SubscriptionStore
from bridge_server.projects.subscriptions import Subscriptions
from bridge_server.push.bridges import Bridges
from bridge_server.push.service import PushServer
from bridge_server.push.store import PushStore
from bridge_server.settings.settings import Settings
from bridge_server.storage.data_directory import DataDirectoryError, DataDirectoryInUseError, held
from bridge_server.storage.database import Database
from bridge_server.storage.migrate import is_up_to_date, migrate, packaged_migrations
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.version import USER_AGENT
from bridge_server.wallet.approval_store import ApprovalStore


@dataclass(frozen=True, slots=True)
class OperatorServices:
    """What an operator works with."""

    projects: Projects
    subscriptions: Subscriptions
    devices: DeviceStateStore
    approvals: ApprovalStore
    database: Database
    clock: Clock


@asynccontextmanager
async def operations(settings: Settings, *, may_create: bool = True) -> AsyncIterator[OperatorServices]:
    """Open the database beside a running server, or bring it up to date when none runs.

    One that is not there is made only if that `may_create`.

    Raises DataDirectoryError, NewerSchemaError, sqlite3.Error.
    """
    if not may_create and not settings.database_file.exists():
        raise DataDirectoryError(
            f"there is no database in {settings.data_dir}: name the server's data directory with --data-dir"
        )
    _bring_up_to_date(settings)
    database = SqliteDatabase(settings.database_file, Events())
    clock, ids = SystemClock(), IdMaker()
    async with database.opened():
        yield OperatorServices(
            Projects(ProjectStore(database), clock, ids, os.urandom),
            Subscriptions(SubscriptionStore(database), clock, ids),
            DeviceStateStore(database),
            ApprovalStore(database),
            database,
            clock,
        )


@asynccontextmanager
async def pushing(settings: Settings, opened: OperatorServices) -> AsyncIterator[PushServer]:
    """Open the push providers that are configured, beside a running server's."""
    clock = SystemClock()
    channels = PushChannels(settings, clock)
    async with AsyncExitStack() as stack:
        sender = await stack.enter_async_context(WebhookSender(sender_settings(settings)))
        for provider in channels.providers.values():
            await stack.enter_async_context(provider)
        yield PushServer(
            PushStore(opened.database),
            Channels(channels.senders, otherwise=sender),
            Bridges(settings.push_timeout, settings.allow_private_webhooks, USER_AGENT),
            clock,
            IdMaker(),
            stopping=Stopping(),
            lifetime_ms=settings.subscription_ttl * 1000,
            webhook_limit=settings.max_topic_webhooks,
        )


def _bring_up_to_date(settings: Settings) -> None:
    migrations = packaged_migrations()
    if settings.database_file.exists() and is_up_to_date(settings.database_file, migrations):
        return
    try:
        with held(settings.data_dir):
            migrate(settings.database_file, migrations)
    except DataDirectoryInUseError as error:
        raise DataDirectoryError(
            f"{error}, or restart it: its database has an older schema than this command needs"
        ) from error
