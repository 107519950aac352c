"""One account as the operator sees it: why it did not get a notification, and what its inbox shows."""

from typing import Annotated

from aiohttp import web

from bridge_server.admin import projects
from bridge_server.admin.notifications import OutcomeMomentsAnswer, outcome_moments
from bridge_server.admin.projects import account_of
from bridge_server.admin.rows import ANY_ACCOUNT, AdminRows
from bridge_server.inbox import wire
from bridge_server.inbox.models import ReadBy
from bridge_server.inbox.store import InboxReads
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.notify.history import HistoryStore
from bridge_server.projects.caip10 import Account
from bridge_server.projects.models import Project, ProjectNotFoundError
from bridge_server.projects.service import ProjectServices
from bridge_server.web import shapes
from bridge_server.web.bodies import json_object
from bridge_server.web.routes import Parameter, Route

_PROJECTS = 100
_NOTIFICATIONS = 10
_DELIVERIES = 50


class AccountBucketAnswer(shapes.TypedDict):
    """The rest of a project's limit for an account."""

    tokens: Annotated[float, shapes.number(50)]
    full_at: shapes.Moment | None
    next_token_at: shapes.Moment | None


class AccountNotificationAnswer(OutcomeMomentsAnswer):
    """A notification, and its outcome for the account."""

    number: Annotated[int, shapes.count(42)]
    type: shapes.TypeId
    title: Annotated[str, shapes.text("ETH is up")]


class AccountProjectAnswer(shapes.TypedDict):
    """An account in a project."""

    project_id: shapes.ProjectId
    name: Annotated[str, shapes.text("Example App")]
    subscribed: bool
    subscription: projects.SubscriberAnswer | None
    account_limit: projects.AccountLimitAnswer
    bucket: AccountBucketAnswer
    notifications: list[AccountNotificationAnswer]


class DeviceDeliveryAnswer(shapes.TypedDict):
    """A message to a device that waits, or has failed."""

    device_id: Annotated[str, shapes.text("0192f7c8-9b3e-7a51-8c2d-6e4f1a2b3c4d")] | None
    channel: shapes.Channel
    project_id: shapes.ProjectId | None
    state: Annotated[str, shapes.one_of("failed", "waiting")]
    attempts: shapes.Count
    created_at: shapes.Moment
    next_attempt_at: shapes.Moment | None
    error: Annotated[str, shapes.text("the receiver answered 500")] | None


class AccountViewAnswer(shapes.TypedDict):
    """An account: its subscriptions, notifications and devices, the latter without their addresses."""

    account: shapes.Account
    projects: list[AccountProjectAnswer]
    devices: list[projects.AccountDeviceAnswer]
    deliveries: list[DeviceDeliveryAnswer]


class AccountAdmin:
    """Shows an account: its projects and devices."""

    def __init__(self, services: ProjectServices, history: HistoryStore, clock: Clock) -> None:
        self._projects, self._subscriptions, self._devices, self._account_limit = services
        self._history, self._clock = history, clock

    async def of(self, account: Account, project_id: str | None) -> AccountViewAnswer:
        """For each project of the account, or for the named project: its subscription, its limit, and its
        last ten notifications with their outcomes; the state of its devices, and messages that wait for them.
        Raises ProjectNotFoundError.
        """
        if project_id is None:
            found = await self._subscriptions.store.projects_of(account.key, _PROJECTS)
        else:
            found = [(await self._projects.show(project_id)).project]
        deliveries = await self._devices.deliveries(account.key, project_id, _DELIVERIES)
        return {
            "account": account.spelled,
            "projects": [await self._in_project(project, account) for project in found],
            "devices": projects.devices_fields(await self._devices.of_account(account.key))["devices"],
            "deliveries": [
                {
                    "device_id": each.device_id,
                    "channel": each.channel,
                    "project_id": each.project_id,
                    "state": "failed" if each.next_attempt_at_ms is None else "waiting",
                    "attempts": each.attempts,
                    "created_at": rfc3339(each.created_at_ms),
                    "next_attempt_at": rfc3339_or_none(each.next_attempt_at_ms),
                    "error": each.last_error,
                }
                for each in deliveries
            ],
        }

    async def _in_project(self, project: Project, account: Account) -> AccountProjectAnswer:
        limit, now_us = self._account_limit, self._clock.now_us()
        subscription = await self._subscriptions.store.of_account(project, account.key)
        bucket = await self._history.bucket(project, account.key, limit, now_us)
        received = await self._history.received(project, account.key, _NOTIFICATIONS)
        return {
            "project_id": project.project_id,
            "name": project.name,
            "subscribed": subscription is not None,
            "subscription": None if subscription is None else projects.subscription_fields(subscription),
            "account_limit": projects.account_limit_fields(project.account_limit, limit),
            "bucket": {
                "tokens": bucket.tokens,
                "full_at": rfc3339_or_none(bucket.full_at_ms),
                "next_token_at": rfc3339_or_none(bucket.next_token_at_ms),
            },
            "notifications": [
                {
                    "number": each.number,
                    "type": each.type_id,
                    "title": each.title,
                    **outcome_moments(each.outcome),
                }
                for each in received
            ],
        }


class InboxAdmin:
    """Shows the inbox of an account, and marks its notifications."""

    def __init__(self, inbox: InboxReads) -> None:
        self._inbox = inbox

    async def inbox(self, request: web.Request) -> wire.InboxPageAnswer:
        """The notifications of an account, as its inbox shows them."""
        account = await self._number(request)
        query = wire.read_query(request.query)
        return wire.page_fields(await self._inbox.page(account, query, wait_seconds=0))

    async def mark_read(self, request: web.Request) -> wire.ReadNotificationsAnswer:
        """Notifications that were marked so count as bulk-marked, and not as read by the user."""
        ids = wire.read_ids(await json_object(request))
        return {"read": await self._inbox.mark_read(await self._number(request), ids, ReadBy.BULK)}

    async def _number(self, request: web.Request) -> int:
        return await self._inbox.store.number_of(account_of(request).key)


_ACCOUNT = f"/admin/accounts/{{account:{ANY_ACCOUNT}}}"


def account_routes(accounts: AccountAdmin, inbox: InboxAdmin, rows: AdminRows) -> tuple[Route, ...]:
    """The routes of an account and of its inbox."""
    rows = rows.under("Accounts")
    return (
        rows.read(_ACCOUNT, "account",
                  lambda request: accounts.of(account_of(request), request.query.get("project_id")),
                  "Why an account did not get a notification", "The account.", of=accounts.of,
                  parameters=(Parameter("project_id", "Only this project, subscribed or not."),),
                  problems=(ProjectNotFoundError,)),
        rows.read(f"{_ACCOUNT}/inbox", "account-inbox", inbox.inbox, "What an account sees", "A page.",
                  parameters=wire.PAGE_QUERY),
        rows.write("POST", f"{_ACCOUNT}/inbox/read", "account-mark-read", inbox.mark_read,
                   "Mark notifications as read for an account", "How many were unread before.",
                   body=wire.ReadShape, body_example={"ids": ["42"]}, problems=(InvalidInputError,)),
    )  # fmt: skip
