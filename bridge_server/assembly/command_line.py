"""The services of a command, on a database that a running server may use."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from bridge_server.assembly.foundation import Foundation, lay_foundation, project_services
from bridge_server.assembly.push import push_services
from bridge_server.console.access import AccessStore, ConsoleAccess
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.values import dataclass
from bridge_server.projects.devices import DeviceStateStore
from bridge_server.projects.service import Projects
from bridge_server.projects.subscriptions import Subscriptions
from bridge_server.push.service import PushServer
from bridge_server.settings.settings import Settings
from bridge_server.wallet.approvals import ApprovalStore


@dataclass(frozen=True, slots=True)
class CommandServices:
    """The services that a command calls. The database is open."""

    foundation: Foundation
    projects: Projects
    subscriptions: Subscriptions
    devices: DeviceStateStore
    approvals: ApprovalStore

    @property
    def clock(self) -> Clock:
        """The clock of the services."""
        return self.foundation.clock


@asynccontextmanager
async def operations(
    settings: Settings, *, may_create: bool = True, clock: Clock | None = None
) -> AsyncIterator[CommandServices]:
    """Open the database beside a running server, or bring it up to date when none runs. Only with
    `may_create` it is created. Commands may write to a full one: its limit is the server's. Raises
    DataDirectoryError, DatabaseRefusedError, NewerSchemaError, sqlite3.Error.
    """
    foundation = lay_foundation(settings.model_copy(update={"database_limit": None}), clock)
    services = project_services(foundation)
    async with foundation.backend.opened_for_command(may_create=may_create):
        yield CommandServices(foundation, *services[:3], ApprovalStore(foundation.database))


@asynccontextmanager
async def pushing(opened: CommandServices) -> AsyncIterator[PushServer]:
    """Open the push providers that are configured, beside a running server's."""
    services = push_services(opened.foundation)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(opened.foundation.webhooks)
        for provider in services.providers:
            await stack.enter_async_context(provider())
        yield services.server


def console_access(foundation: Foundation) -> ConsoleAccess:
    """Links and sessions in the foundation's database."""
    return ConsoleAccess(AccessStore(foundation.database), foundation.machine_clock, os.urandom)
