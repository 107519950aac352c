"""Finds out why an account did not get a notification."""

from collections.abc import Sequence

from bridge_server.admin.accounts.models import AccountView, ProjectView
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.token_bucket import Limit
from bridge_server.notify.history_store import HistoryStore
from bridge_server.projects.caip10 import Account
from bridge_server.projects.device_state_store import DeviceStateStore
from bridge_server.projects.models import Project
from bridge_server.projects.projects import Projects
from bridge_server.projects.subscriptions import Subscriptions

_PROJECTS = 100
_NOTIFICATIONS = 10
_DELIVERIES = 50


class AccountViews:
    """Asks every room about an account. `account_limit` is the server's default for projects."""

    def __init__(
        self,
        projects: Projects,
        subscriptions: Subscriptions,
        history: HistoryStore,
        devices: DeviceStateStore,
        clock: Clock,
        account_limit: Limit,
    ) -> None:
        self._projects = projects
        self._subscriptions = subscriptions
        self._history = history
        self._devices = devices
        self._clock = clock
        self._account_limit = account_limit

    async def of(self, account: Account, project_id: str | None) -> AccountView:
        """The account in one project, or in its projects. Raises ProjectNotFoundError."""
        projects = await self._wanted(account, project_id)
        return AccountView(
            account,
            [await self._project_view(project, account) for project in projects],
            await self._devices.of_account(account.key),
            await self._devices.deliveries(account.key, project_id, _DELIVERIES),
        )

    async def _wanted(self, account: Account, project_id: str | None) -> Sequence[Project]:
        if project_id is None:
            return await self._subscriptions.projects_of(account.key, _PROJECTS)
        return [(await self._projects.show(project_id)).project]

    async def _project_view(self, project: Project, account: Account) -> ProjectView:
        return ProjectView(
            project,
            await self._subscriptions.of_account(project, account.key),
            await self._history.bucket(project, account.key, self._account_limit, self._clock.now_us()),
            await self._history.received(project, account.key, _NOTIFICATIONS),
        )
