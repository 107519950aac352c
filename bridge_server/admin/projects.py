"""Projects, their types, secrets, limits, webhooks and subscribers, managed by the operator."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from aiohttp import web
from pydantic import AfterValidator, Field

from bridge_server.admin.rows import (
    ANY_ACCOUNT,
    ANY_ID,
    AdminRows,
    fields_answer,
    success_answer,
    wanted_page,
)
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.fields import http_url
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none, spell_day
from bridge_server.kernel.token_bucket import MICROSECONDS, Limit
from bridge_server.projects.caip10 import Account, parse_account
from bridge_server.projects.devices import DeviceState, DeviceStateStore
from bridge_server.projects.models import (
    NewSecret,
    NewSubscription,
    NotificationType,
    Project,
    ProjectDetails,
    ProjectOverview,
    ReadFigures,
    Subscription,
    SubscriptionNotFoundError,
    Webhook,
    checked_name,
    checked_project_id,
    checked_type_id,
)
from bridge_server.projects.service import (
    LEAST_PER_HOUR,
    MOST_AT_ONCE,
    MOST_PER_HOUR,
    Analytics,
    DayAnalytics,
    Projects,
    TypeAnalytics,
    read_wanted_types,
)
from bridge_server.projects.subscriptions import Subscriptions
from bridge_server.web.bodies import WEB_URL, JsonObject, Shape, check, json_object, parse_object
from bridge_server.web.routes import Route

_HOUR_US = 3600 * MICROSECONDS
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_DIGITS = 6
"""The digits of a rate per hour, which is stored as whole microseconds between two tokens."""


def _valid(rule: Callable[[str], str]) -> AfterValidator:
    def apply(text: str) -> str:
        try:
            return rule(text)
        except InvalidInputError as error:
            raise ValueError(error.faults[0].detail) from error

    return AfterValidator(apply)


Name = Annotated[str, _valid(checked_name)]


class ProjectShape(Shape):
    """The body of POST /admin/projects."""

    name: Name
    project_id: Annotated[str, _valid(checked_project_id)] | None = None


class AccountLimitShape(Shape):
    """The body of PUT /admin/projects/{project_id}/account-limit."""

    per_hour: Annotated[float, Field(ge=LEAST_PER_HOUR, le=MOST_PER_HOUR)]
    burst: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)]


class WebhookShape(Shape):
    """The body of PUT /admin/projects/{project_id}/webhook."""

    url: Annotated[str, AfterValidator(http_url), WEB_URL]


class TypeShape(Shape):
    """The body of POST /admin/projects/{project_id}/types."""

    name: Name
    type_id: Annotated[str, _valid(checked_type_id)] | None = None


class TypeNameShape(Shape):
    """The body of PUT /admin/projects/{project_id}/types/{type_id}."""

    name: Name


def read_project(document: JsonObject) -> ProjectShape:
    """Read a name and an optional id."""
    return check(ProjectShape, document.values)


def read_account_limit(document: JsonObject) -> AccountLimitShape:
    """Read a rate per hour and a burst."""
    return check(AccountLimitShape, document.values)


def read_webhook(document: JsonObject) -> str:
    """Read the URL of a webhook for subscriptions."""
    return check(WebhookShape, document.values).url


def read_type(document: JsonObject) -> TypeShape:
    """Read a name and an optional id."""
    return check(TypeShape, document.values)


def read_type_name(document: JsonObject) -> str:
    """Read the new name of a type."""
    return check(TypeNameShape, document.values).name


def read_account(text: str) -> Account:
    """Read an account id. Raises InvalidInputError."""
    try:
        return parse_account(text)
    except ValueError as error:
        raise InvalidInputError(f"The account {error}.") from error


def read_place(after: str) -> int:
    """Read the query parameter `after` of the list of projects. Raises InvalidInputError."""
    if after and not _NUMBER.fullmatch(after):
        raise InvalidInputError("The query parameter after takes `next` of an earlier answer.")
    return int(after or 0)


def account_limit_fields(own: Limit | None, servers: Limit) -> dict[str, Any]:
    """The limit in force, and whether it is the project's own."""
    limit = servers if own is None else own
    per_hour = round(_HOUR_US / limit.interval_us, _DIGITS)
    return {"per_hour": per_hour, "burst": limit.burst, "own": own is not None}


def project_fields(project: Project, servers_limit: Limit) -> dict[str, Any]:
    """A project without its types, secrets and subscribers."""
    return {
        "project_id": project.project_id,
        "name": project.name,
        "created_at": rfc3339(project.created_at_ms),
        "account_limit": account_limit_fields(project.account_limit, servers_limit),
        "webhook": None if project.webhook is None else project.webhook.url,
    }


def project_list_fields(projects: Sequence[ProjectOverview], servers_limit: Limit) -> dict[str, Any]:
    """Every project with its figures. The read rate is that of the last 30 days."""
    return {"projects": [_listed_fields(listed, servers_limit) for listed in projects]}


def project_page_fields(
    projects: Sequence[ProjectOverview], limit: int, servers_limit: Limit
) -> dict[str, Any]:
    """A page of at most `limit` projects. `projects` has one more if another page follows."""
    page = projects[:limit]
    following = str(page[-1].project.number) if len(projects) > limit else None
    return {**project_list_fields(page, servers_limit), "next": following}


def details_fields(details: ProjectDetails, servers_limit: Limit) -> dict[str, Any]:
    """A project with its types, secrets and number of subscribers."""
    return {
        **project_fields(details.project, servers_limit),
        "types": [type_fields(kind) for kind in details.types],
        "secrets": [
            {"number": secret.number, "created_at": rfc3339(secret.created_at_ms)}
            for secret in details.secrets
        ],
        "subscribers": details.subscribers,
    }


def secret_fields(secret: NewSecret) -> dict[str, Any]:
    """A new secret, which is shown only in this answer."""
    return {"number": secret.number, "secret": secret.secret}


def new_project_fields(project: Project, secret: NewSecret, servers_limit: Limit) -> dict[str, Any]:
    """A new project and its first secret."""
    return {
        **project_fields(project, servers_limit),
        "types": [],
        "secrets": [{"number": secret.number, "created_at": rfc3339(project.created_at_ms)}],
        "subscribers": 0,
        "secret": secret_fields(secret),
    }


def webhook_fields(webhook: Webhook) -> dict[str, Any]:
    """A webhook and its signing secret, which is shown only in this answer."""
    return {"url": webhook.url, "signing_secret": webhook.signing_secret}


def type_fields(kind: NotificationType) -> dict[str, Any]:
    """A notification type."""
    return {"type_id": kind.type_id, "name": kind.name, "created_at": rfc3339(kind.created_at_ms)}


def type_list_fields(types: Sequence[NotificationType]) -> dict[str, Any]:
    """A project's notification types."""
    return {"types": [type_fields(kind) for kind in types]}


def subscription_fields(subscription: Subscription) -> dict[str, Any]:
    """An account and the types that it receives."""
    return {
        "account": subscription.account,
        "notification_types": subscription.types,
        "subscribed_at": rfc3339(subscription.subscribed_at_ms),
    }


def devices_fields(devices: Sequence[DeviceState]) -> dict[str, Any]:
    """The states of an account's devices, without their addresses."""
    return {"devices": [_device_fields(device) for device in devices]}


def subscriber_page_fields(subscriptions: Sequence[Subscription], limit: int) -> dict[str, Any]:
    """A page of at most `limit` subscriptions. `subscriptions` has one more if another page follows."""
    page = subscriptions[:limit]
    more = len(subscriptions) > limit
    return {
        "subscribers": [subscription_fields(subscription) for subscription in page],
        "next": page[-1].account if more else None,
    }


def _listed_fields(listed: ProjectOverview, servers_limit: Limit) -> dict[str, Any]:
    return {
        **project_fields(listed.project, servers_limit),
        "types": [type_fields(kind) for kind in listed.types],
        "subscribers": listed.subscribers,
        "sent_today": listed.sent_today,
        "read_rate": listed.figures.read_rate,
    }


def _device_fields(device: DeviceState) -> dict[str, Any]:
    return {
        "id": device.device_id,
        "channel": device.channel,
        "created_at": rfc3339(device.created_at_ms),
        "state": device.state.value,
        "queued": device.queued,
        "delivered_at": rfc3339_or_none(device.delivered_at_ms),
        "failed_at": rfc3339_or_none(device.failed_at_ms),
        "error": device.last_error,
    }


# JSON of a project's analytics in the admin API, which the command with --json prints too.


def analytics_fields(analytics: Analytics) -> dict[str, Any]:
    """How many notifications were sent in a period, and how many of them were read."""
    return {
        "project_id": analytics.project_id,
        "from": spell_day(analytics.period.first_day),
        "to": spell_day(analytics.period.last_day),
        "total": figures_fields(analytics.total),
        "types": [_type_fields(kind) for kind in analytics.types],
        "by_day": [_day_fields(day) for day in analytics.by_day],
    }


def figures_fields(figures: ReadFigures) -> dict[str, Any]:
    """Counts and the read rate, which is null if no notification counts."""
    return {
        "sent": figures.sent,
        "read": figures.read,
        "bulk_marked": figures.bulk_marked,
        "read_rate": figures.read_rate,
    }


def _type_fields(kind: TypeAnalytics) -> dict[str, Any]:
    return {
        "type_id": kind.type_id,
        "total": figures_fields(kind.total),
        "days": [{"day": spell_day(day.day), **figures_fields(day.figures)} for day in kind.days],
    }


def _day_fields(day: DayAnalytics) -> dict[str, Any]:
    types = [{"type_id": kind.type_id, **figures_fields(kind.figures)} for kind in day.types]
    return {"day": spell_day(day.day), **figures_fields(day.total), "types": types}


# A subscriber in a line of text: an account id, or a JSON object with the types too (JSON Lines).


def read_subscriber(line: bytes) -> NewSubscription:
    """The subscription in a line. Raises InvalidInputError."""
    if not line.startswith(b"{"):
        return NewSubscription(read_account(line.decode(errors="replace")), None)
    values = parse_object(line).values
    return NewSubscription(read_account(_account(values)), read_wanted_types(values))


def _account(values: dict[str, Any]) -> str:
    account = values.get("account")
    if not isinstance(account, str):
        raise InvalidInputError("The account is missing or is not a string.")
    return account


class ProjectHandlers:
    """One method per endpoint. `account_limit` is the server's default for projects without their own."""

    def __init__(
        self,
        projects: Projects,
        subscriptions: Subscriptions,
        devices: DeviceStateStore,
        account_limit: Limit,
    ) -> None:
        self._projects = projects
        self._subscriptions = subscriptions
        self._devices = devices
        self._account_limit = account_limit

    async def devices(self, request: web.Request) -> web.Response:
        account = read_account(request.match_info["account"])
        return fields_answer(devices_fields(await self._devices.of_account(account.key)))

    async def listed(self, request: web.Request) -> web.Response:
        """A page of projects; all of them for a client that asks for no page, as before there were pages."""
        if not {"after", "limit"} & request.query.keys():
            projects = await self._projects.overview()
            return fields_answer(project_list_fields(projects, self._account_limit))
        after, limit = wanted_page(request)
        found = await self._projects.overview(read_place(after), limit + 1)
        return fields_answer(project_page_fields(found, limit, self._account_limit))

    async def create_project(self, request: web.Request) -> web.Response:
        new = read_project(await json_object(request))
        project, secret = await self._projects.create(new.name, new.project_id)
        return fields_answer(new_project_fields(project, secret, self._account_limit))

    async def project(self, request: web.Request) -> web.Response:
        details = await self._projects.show(_project_id(request))
        return fields_answer(details_fields(details, self._account_limit))

    async def delete_project(self, request: web.Request) -> web.Response:
        await self._projects.delete(_project_id(request))
        return success_answer()

    async def rotate_secret(self, request: web.Request) -> web.Response:
        secret = await self._projects.rotate_secret(_project_id(request))
        return fields_answer(secret_fields(secret))

    async def revoke_secret(self, request: web.Request) -> web.Response:
        await self._projects.revoke_secret(_project_id(request), int(request.match_info["number"]))
        return success_answer()

    async def limit_accounts(self, request: web.Request) -> web.Response:
        limit = read_account_limit(await json_object(request))
        project = await self._projects.limit_accounts(_project_id(request), limit.per_hour, limit.burst)
        return fields_answer(account_limit_fields(project.account_limit, self._account_limit))

    async def reset_account_limit(self, request: web.Request) -> web.Response:
        await self._projects.reset_account_limit(_project_id(request))
        return success_answer()

    async def set_webhook(self, request: web.Request) -> web.Response:
        url = read_webhook(await json_object(request))
        webhook = await self._projects.set_webhook(_project_id(request), url)
        return fields_answer(webhook_fields(webhook))

    async def remove_webhook(self, request: web.Request) -> web.Response:
        await self._projects.remove_webhook(_project_id(request))
        return success_answer()

    async def types(self, request: web.Request) -> web.Response:
        types = await self._projects.types(_project_id(request))
        return fields_answer(type_list_fields(types))

    async def add_type(self, request: web.Request) -> web.Response:
        new = read_type(await json_object(request))
        added = await self._projects.add_type(_project_id(request), new.name, new.type_id)
        return fields_answer(type_fields(added))

    async def rename_type(self, request: web.Request) -> web.Response:
        name = read_type_name(await json_object(request))
        renamed = await self._projects.rename_type(_project_id(request), _type_id(request), name)
        return fields_answer(type_fields(renamed))

    async def remove_type(self, request: web.Request) -> web.Response:
        await self._projects.remove_type(_project_id(request), _type_id(request))
        return success_answer()

    async def subscribers(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        search = request.query.get("search", "")
        found = await self._subscriptions.search(_project_id(request), search, after, limit + 1)
        return fields_answer(subscriber_page_fields(found, limit))

    async def subscribe(self, request: web.Request) -> web.Response:
        account = read_account(request.match_info["account"])
        values = (await json_object(request)).values if await request.read() else {}
        types = read_wanted_types(values)
        subscription, _ = await self._subscriptions.subscribe(
            _project_id(request), NewSubscription(account, types)
        )
        return fields_answer(subscription_fields(subscription))

    async def unsubscribe(self, request: web.Request) -> web.Response:
        account = read_account(request.match_info["account"])
        if not await self._subscriptions.unsubscribe(_project_id(request), [account.key]):
            raise SubscriptionNotFoundError
        return success_answer()

    async def analytics(self, request: web.Request) -> web.Response:
        asked = request.query
        found = await self._projects.analytics(_project_id(request), asked.get("from"), asked.get("to"))
        return fields_answer(analytics_fields(found))


def _project_id(request: web.Request) -> str:
    return request.match_info["project_id"]


def _type_id(request: web.Request) -> str:
    return request.match_info["type_id"]


_PROJECTS = "/admin/projects"
_PROJECT = f"{_PROJECTS}/{{project_id:{ANY_ID}}}"
_SECRET = f"{_PROJECT}/secrets/{{number:[0-9]{{1,18}}}}"
_TYPE = f"{_PROJECT}/types/{{type_id:{ANY_ID}}}"
_ACCOUNT = f"{{account:{ANY_ACCOUNT}}}"
_SUBSCRIBER = f"{_PROJECT}/subscribers/{_ACCOUNT}"


def project_routes(handlers: ProjectHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """Projects with what belongs to them, and the devices of an account."""
    read, write = rows.read, rows.write
    return (
        read(_PROJECTS, "projects", handlers.listed),
        write("POST", _PROJECTS, "create-project", handlers.create_project),
        read(_PROJECT, "project", handlers.project),
        write("DELETE", _PROJECT, "delete-project", handlers.delete_project),
        write("POST", f"{_PROJECT}/secrets", "rotate-secret", handlers.rotate_secret),
        write("DELETE", _SECRET, "revoke-secret", handlers.revoke_secret),
        write("PUT", f"{_PROJECT}/account-limit", "limit-accounts", handlers.limit_accounts),
        write("DELETE", f"{_PROJECT}/account-limit", "reset-account-limit", handlers.reset_account_limit),
        write("PUT", f"{_PROJECT}/webhook", "set-project-webhook", handlers.set_webhook),
        write("DELETE", f"{_PROJECT}/webhook", "remove-project-webhook", handlers.remove_webhook),
        read(f"{_PROJECT}/types", "types", handlers.types),
        write("POST", f"{_PROJECT}/types", "add-type", handlers.add_type),
        write("PUT", _TYPE, "rename-type", handlers.rename_type),
        write("DELETE", _TYPE, "remove-type", handlers.remove_type),
        read(f"{_PROJECT}/subscribers", "project-subscribers", handlers.subscribers),
        write("PUT", _SUBSCRIBER, "subscribe-account", handlers.subscribe),
        write("DELETE", _SUBSCRIBER, "unsubscribe-account", handlers.unsubscribe),
        read(f"{_PROJECT}/analytics", "analytics", handlers.analytics),
        read(f"/admin/accounts/{_ACCOUNT}/devices", "account-devices", handlers.devices),
    )
