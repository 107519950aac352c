"""One account as the operator sees it: why it did not get a notification, and what its inbox shows."""

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from bridge_server.admin.notifications import outcome_moments
from bridge_server.admin.projects import (
    account_limit_fields,
    devices_fields,
    read_account,
    subscription_fields,
)
from bridge_server.admin.rows import ANY_ACCOUNT, AdminRows, fields_answer
from bridge_server.inbox.models import ReadBy
from bridge_server.inbox.reading import InboxReads
from bridge_server.inbox.wire import page_fields, read_ids, read_query, write_marked
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.kernel.token_bucket import Limit
from bridge_server.kernel.values import dataclass
from bridge_server.notify.history import AccountBucket, AccountNotification, HistoryStore
from bridge_server.projects.caip10 import Account
from bridge_server.projects.devices import DeviceDelivery, DeviceState, DeviceStateStore
from bridge_server.projects.models import Project, Subscription
from bridge_server.projects.service import Projects
from bridge_server.projects.subscriptions import Subscriptions
from bridge_server.web.answers import json_answer
from bridge_server.web.bodies import json_object
from bridge_server.web.routes import Route

_PROJECTS = 100
_NOTIFICATIONS = 10
_DELIVERIES = 50


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


def account_fields(view: AccountView, servers_limit: Limit) -> dict[str, Any]:
    """An account; its devices are without their addresses and their pushes."""
    return {
        "account": view.account.spelled,
        "projects": [_project_fields(project, servers_limit) for project in view.projects],
        **devices_fields(view.devices),
        "deliveries": [_delivery_fields(delivery) for delivery in view.deliveries],
    }


def _project_fields(view: ProjectView, servers_limit: Limit) -> dict[str, Any]:
    subscription = view.subscription
    return {
        "project_id": view.project.project_id,
        "name": view.project.name,
        "subscribed": subscription is not None,
        "subscription": None if subscription is None else subscription_fields(subscription),
        "account_limit": account_limit_fields(view.project.account_limit, servers_limit),
        "bucket": _bucket_fields(view.bucket),
        "notifications": [_notification_fields(notification) for notification in view.notifications],
    }


def _bucket_fields(bucket: AccountBucket) -> dict[str, Any]:
    return {
        "tokens": bucket.tokens,
        "full_at": rfc3339_or_none(bucket.full_at_ms),
        "next_token_at": rfc3339_or_none(bucket.next_token_at_ms),
    }


def _notification_fields(received: AccountNotification) -> dict[str, Any]:
    return {
        "number": received.number,
        "type": received.type_id,
        "title": received.title,
        **outcome_moments(received.outcome),
    }


def _delivery_fields(delivery: DeviceDelivery) -> dict[str, Any]:
    return {
        "device_id": delivery.device_id,
        "channel": delivery.channel,
        "project_id": delivery.project_id,
        "state": "failed" if delivery.next_attempt_at_ms is None else "waiting",
        "attempts": delivery.attempts,
        "created_at": rfc3339(delivery.created_at_ms),
        "next_attempt_at": rfc3339_or_none(delivery.next_attempt_at_ms),
        "error": delivery.last_error,
    }


class AccountHandlers:
    """One method per endpoint. `account_limit` is the server's default for projects without their own."""

    def __init__(self, views: AccountViews, inbox: InboxReads, account_limit: Limit) -> None:
        self._views = views
        self._inbox = inbox
        self._account_limit = account_limit

    async def account(self, request: web.Request) -> web.Response:
        account = read_account(request.match_info["account"])
        view = await self._views.of(account, request.query.get("project_id"))
        return fields_answer(account_fields(view, self._account_limit))

    async def inbox(self, request: web.Request) -> web.Response:
        number = await self._number(request)
        page = await self._inbox.page(number, read_query(request.query), wait_seconds=0)
        return fields_answer(page_fields(page))

    async def mark_read(self, request: web.Request) -> web.Response:
        ids = read_ids(await json_object(request))
        marked = await self._inbox.mark_read(await self._number(request), ids, ReadBy.BULK)
        return json_answer(write_marked(marked))

    async def _number(self, request: web.Request) -> int:
        return await self._inbox.number_of(read_account(request.match_info["account"]).key)


_ACCOUNT = f"/admin/accounts/{{account:{ANY_ACCOUNT}}}"


def account_routes(handlers: AccountHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """The routes of an account and of its inbox."""
    return (
        rows.read(_ACCOUNT, "account", handlers.account),
        rows.read(f"{_ACCOUNT}/inbox", "account-inbox", handlers.inbox),
        rows.write("POST", f"{_ACCOUNT}/inbox/read", "account-mark-read", handlers.mark_read),
    )
