"""Projects, their types, secrets, limits, webhooks and subscribers, managed by the operator."""

from collections.abc import Callable, Sequence
from typing import Annotated, NotRequired

from aiohttp import web
from pydantic import AfterValidator, Field

from bridge_server.admin.notifications import ProjectAnalyticsAnswer, analytics_fields
from bridge_server.admin.rows import ANY_ACCOUNT, ANY_ID, AdminRows, body, read_after, wanted_page
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.fields import http_url
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.kernel.token_bucket import MICROSECONDS, Limit
from bridge_server.projects import models, service
from bridge_server.projects.caip10 import Account, parse_account
from bridge_server.projects.devices import DeliveryState, DeviceState
from bridge_server.web import shapes
from bridge_server.web.bodies import WEB_URL, Shape, json_object, parse_object
from bridge_server.web.routes import Parameter, Route

_HOUR_US = 3600 * MICROSECONDS
_DIGITS = 6  # the digits of a rate per hour, which is stored as whole microseconds between two tokens


def _valid(rule: Callable[[str], str]) -> AfterValidator:
    def apply(text: str) -> str:
        try:
            return rule(text)
        except InvalidInputError as error:
            raise ValueError(error.faults[0].detail) from error

    return AfterValidator(apply)


Name = Annotated[str, _valid(models.checked_name)]


class ProjectShape(Shape):
    """The body of POST /admin/projects."""

    name: Name
    project_id: Annotated[str, _valid(models.checked_project_id)] | None = None


class AccountLimitShape(Shape):
    """The body of PUT /admin/projects/{project_id}/account-limit."""

    per_hour: Annotated[float, Field(ge=service.LEAST_PER_HOUR, le=service.MOST_PER_HOUR)]
    burst: Annotated[int, Field(ge=1, le=service.MOST_AT_ONCE)]


class WebhookShape(Shape):
    """The body of PUT /admin/projects/{project_id}/webhook."""

    url: Annotated[str, AfterValidator(http_url), WEB_URL]


class TypeShape(Shape):
    """The body of POST /admin/projects/{project_id}/types."""

    name: Name
    type_id: Annotated[str, _valid(models.checked_type_id)] | None = None


class TypeNameShape(Shape):
    """The body of PUT /admin/projects/{project_id}/types/{type_id}."""

    name: Name


ProjectName = Annotated[str, shapes.text("Example App")]
Number = Annotated[int, shapes.count(1)]


class AccountLimitAnswer(shapes.TypedDict):
    """How many notifications one account may get. `own` tells a project's own limit from the server's."""

    per_hour: Annotated[float, shapes.number(2)]
    burst: Annotated[int, shapes.count(50)]
    own: bool


class NotificationTypeAnswer(shapes.TypedDict):
    """A notification type."""

    type_id: shapes.TypeId
    name: Annotated[str, shapes.text("Price alerts")]
    created_at: shapes.Moment


class NotificationTypesAnswer(shapes.TypedDict):
    """The notification types of a project."""

    types: list[NotificationTypeAnswer]


class ProjectAnswer(shapes.TypedDict):
    """A project. `webhook` is the URL that changes of subscriptions are sent to."""

    project_id: shapes.ProjectId
    name: ProjectName
    created_at: shapes.Moment
    account_limit: AccountLimitAnswer
    webhook: Annotated[str, shapes.text("https://app.example.org/subscriptions")] | None


class ListedProjectAnswer(ProjectAnswer):
    """A project with its figures. The read rate is that of the last 30 days, null if nothing counts."""

    types: list[NotificationTypeAnswer]
    subscribers: shapes.Count
    sent_today: shapes.Count
    read_rate: shapes.Rate | None


class ProjectsAnswer(shapes.TypedDict):
    """Projects, oldest first. `next` is there if a page was asked for."""

    projects: list[ListedProjectAnswer]
    next: NotRequired[shapes.NextPage | None]


class SecretInfoAnswer(shapes.TypedDict):
    """A secret without its text."""

    number: Number
    created_at: shapes.Moment


class ProjectSecretAnswer(shapes.TypedDict):
    """A new secret."""

    number: Number
    secret: Annotated[str, shapes.text("bsk_Zm9yIHRoZSBleGFtcGxlIG9ubHk")]


class ProjectDetailsAnswer(ProjectAnswer):
    """A project with its types, its secrets without their texts, and its number of subscribers."""

    types: list[NotificationTypeAnswer]
    secrets: list[SecretInfoAnswer]
    subscribers: shapes.Count


class NewProjectAnswer(ProjectDetailsAnswer):
    """A new project and its first secret."""

    secret: ProjectSecretAnswer


class ProjectWebhookAnswer(shapes.TypedDict):
    """A webhook for subscriptions, and the secret that its messages are signed with."""

    url: Annotated[str, shapes.text("https://app.example.org/subscriptions")]
    signing_secret: Annotated[str, shapes.text("whsec_Zm9yIHRoZSBleGFtcGxlIG9ubHk=")]


class SubscriberAnswer(shapes.TypedDict):
    """An account and the types that it has chosen."""

    account: shapes.Account
    notification_types: Sequence[shapes.TypeId]
    subscribed_at: shapes.Moment


class SubscribersAnswer(shapes.TypedDict):
    """A page of subscribers."""

    subscribers: list[SubscriberAnswer]
    next: shapes.Account | None


class AccountDeviceAnswer(shapes.TypedDict):
    """A device of an account, without its address."""

    id: Annotated[str, shapes.text("0192f7c8-9b3e-7a51-8c2d-6e4f1a2b3c4d")]
    channel: shapes.Channel
    created_at: shapes.Moment
    state: DeliveryState
    queued: shapes.Count
    delivered_at: shapes.Moment | None
    failed_at: shapes.Moment | None
    error: Annotated[str, shapes.text("the receiver answered 500")] | None


class AccountDevicesAnswer(shapes.TypedDict):
    """The devices of an account."""

    devices: list[AccountDeviceAnswer]


def account_limit_fields(own: Limit | None, servers: Limit) -> AccountLimitAnswer:
    """The limit in force: the project's own, or the server's."""
    limit = servers if own is None else own
    per_hour = round(_HOUR_US / limit.interval_us, _DIGITS)
    return {"per_hour": per_hour, "burst": limit.burst, "own": own is not None}


def project_fields(project: models.Project, servers_limit: Limit) -> ProjectAnswer:
    """A project without its types, secrets and subscribers."""
    return {
        "project_id": project.project_id,
        "name": project.name,
        "created_at": rfc3339(project.created_at_ms),
        "account_limit": account_limit_fields(project.account_limit, servers_limit),
        "webhook": None if project.webhook is None else project.webhook.url,
    }


def project_list_fields(projects: Sequence[models.ProjectOverview], servers_limit: Limit) -> ProjectsAnswer:
    """Every project with its figures."""
    return {
        "projects": [
            {
                **project_fields(listed.project, servers_limit),
                "types": [type_fields(kind) for kind in listed.types],
                "subscribers": listed.subscribers,
                "sent_today": listed.sent_today,
                "read_rate": listed.figures.read_rate,
            }
            for listed in projects
        ]
    }


def project_page_fields(
    projects: Sequence[models.ProjectOverview], limit: int, servers_limit: Limit
) -> ProjectsAnswer:
    """A page of at most `limit` projects. `projects` has one more if another page follows."""
    page = projects[:limit]
    following = str(page[-1].project.number) if len(projects) > limit else None
    return {**project_list_fields(page, servers_limit), "next": following}


def details_fields(details: models.ProjectDetails, servers_limit: Limit) -> ProjectDetailsAnswer:
    return {
        **project_fields(details.project, servers_limit),
        "types": [type_fields(kind) for kind in details.types],
        "secrets": [
            {"number": secret.number, "created_at": rfc3339(secret.created_at_ms)}
            for secret in details.secrets
        ],
        "subscribers": details.subscribers,
    }


def secret_fields(secret: models.NewSecret) -> ProjectSecretAnswer:
    """A new secret, which is shown only in this answer."""
    return {"number": secret.number, "secret": secret.secret}


def new_project_fields(
    project: models.Project, secret: models.NewSecret, servers_limit: Limit
) -> NewProjectAnswer:
    return {
        **project_fields(project, servers_limit),
        "types": [],
        "secrets": [{"number": secret.number, "created_at": rfc3339(project.created_at_ms)}],
        "subscribers": 0,
        "secret": secret_fields(secret),
    }


def webhook_fields(webhook: models.Webhook) -> ProjectWebhookAnswer:
    """A webhook and its signing secret, which is shown only in this answer."""
    return {"url": webhook.url, "signing_secret": webhook.signing_secret}


def type_fields(kind: models.NotificationType) -> NotificationTypeAnswer:
    return {"type_id": kind.type_id, "name": kind.name, "created_at": rfc3339(kind.created_at_ms)}


def type_list_fields(types: Sequence[models.NotificationType]) -> NotificationTypesAnswer:
    return {"types": [type_fields(kind) for kind in types]}


def subscription_fields(subscription: models.Subscription) -> SubscriberAnswer:
    """An account and the types that it receives."""
    return {
        "account": subscription.account,
        "notification_types": subscription.types,
        "subscribed_at": rfc3339(subscription.subscribed_at_ms),
    }


def devices_fields(devices: Sequence[DeviceState]) -> AccountDevicesAnswer:
    """The states of an account's devices, without their addresses."""
    return {
        "devices": [
            {
                "id": device.device_id,
                "channel": device.channel,
                "created_at": rfc3339(device.created_at_ms),
                "state": device.state,
                "queued": device.queued,
                "delivered_at": rfc3339_or_none(device.delivered_at_ms),
                "failed_at": rfc3339_or_none(device.failed_at_ms),
                "error": device.last_error,
            }
            for device in devices
        ]
    }


def subscriber_page_fields(subscriptions: Sequence[models.Subscription], limit: int) -> SubscribersAnswer:
    """A page of at most `limit` subscriptions. `subscriptions` has one more if another page follows."""
    page = subscriptions[:limit]
    return {
        "subscribers": [subscription_fields(subscription) for subscription in page],
        "next": page[-1].account if len(subscriptions) > limit else None,
    }


def read_account(text: str) -> Account:
    """Read an account id. Raises InvalidInputError."""
    try:
        return parse_account(text)
    except ValueError as error:
        raise InvalidInputError(f"The account {error}.") from error


def read_subscriber(line: bytes) -> models.NewSubscription:
    """A subscriber in a line: an account id, or JSON with the types too. Raises InvalidInputError."""
    if not line.startswith(b"{"):
        return models.NewSubscription(read_account(line.decode(errors="replace")), None)
    values = parse_object(line).values
    account = values.get("account")
    if not isinstance(account, str):
        raise InvalidInputError("The account is missing or is not a string.")
    return models.NewSubscription(read_account(account), service.read_wanted_types(values))


class ProjectAdmin:
    """One method per endpoint."""

    def __init__(self, services: service.ProjectServices) -> None:
        self._projects, self._subscriptions, self._devices, self._account_limit = services

    async def devices(self, request: web.Request) -> AccountDevicesAnswer:
        """The state of deliveries to each device of an account, without addresses."""
        return devices_fields(await self._devices.of_account(account_of(request).key))

    async def projects(self, request: web.Request) -> ProjectsAnswer:
        """Projects with their types, subscribers and figures, oldest first. Without `after` and `limit` it
        lists all of them, and the answer has no `next`.
        """
        if not {"after", "limit"} & request.query.keys():
            return project_list_fields(await self._projects.overview(), self._account_limit)
        after, limit = wanted_page(request)
        found = await self._projects.overview(read_after(after) or 0, limit + 1)
        return project_page_fields(found, limit, self._account_limit)

    async def create_project(self, request: web.Request) -> NewProjectAnswer:
        """Makes a project for an app, and its first secret, which is shown only in this answer."""
        new = await body(request, ProjectShape)
        return new_project_fields(*await self._projects.create(new.name, new.project_id), self._account_limit)

    async def project(self, request: web.Request) -> ProjectDetailsAnswer:
        """A project with its types, its secrets without their texts, and its number of subscribers."""
        return details_fields(await self._projects.show(_project_id(request)), self._account_limit)

    async def delete_project(self, request: web.Request) -> None:
        """Deletes it with its subscribers, its notifications and its figures."""
        await self._projects.delete(_project_id(request))

    async def rotate_secret(self, request: web.Request) -> ProjectSecretAnswer:
        """A project may have two secrets, so that its backend can change from one to the other."""
        return secret_fields(await self._projects.rotate_secret(_project_id(request)))

    async def revoke_secret(self, request: web.Request) -> None:
        """The secret is refused from now on."""
        await self._projects.revoke_secret(_project_id(request), int(request.match_info["number"]))

    async def limit_accounts(self, request: web.Request) -> AccountLimitAnswer:
        """How many notifications the project may send to one account: an average per hour, and a burst."""
        limit = await body(request, AccountLimitShape)
        project = await self._projects.limit_accounts(_project_id(request), limit.per_hour, limit.burst)
        return account_limit_fields(project.account_limit, self._account_limit)

    async def reset_account_limit(self, request: web.Request) -> None:
        """The server's limit holds again."""
        await self._projects.reset_account_limit(_project_id(request))

    async def set_webhook(self, request: web.Request) -> ProjectWebhookAnswer:
        """Each change of a subscription is sent there, signed with the secret of the answer."""
        url = (await body(request, WebhookShape)).url
        return webhook_fields(await self._projects.set_webhook(_project_id(request), url))

    async def remove_webhook(self, request: web.Request) -> None:
        """Changes are sent no more."""
        await self._projects.remove_webhook(_project_id(request))

    async def types(self, request: web.Request) -> NotificationTypesAnswer:
        """The types of notifications that accounts may choose."""
        return type_list_fields(await self._projects.types(_project_id(request)))

    async def add_type(self, request: web.Request) -> NotificationTypeAnswer:
        """Without `type_id` the id is made from the name."""
        new = await body(request, TypeShape)
        return type_fields(await self._projects.add_type(_project_id(request), new.name, new.type_id))

    async def rename_type(self, request: web.Request) -> NotificationTypeAnswer:
        """The id stays."""
        name = (await body(request, TypeNameShape)).name
        type_id = request.match_info["type_id"]
        return type_fields(await self._projects.rename_type(_project_id(request), type_id, name))

    async def remove_type(self, request: web.Request) -> None:
        """Accounts that have chosen it receive the others. Notifications that were sent stay."""
        await self._projects.remove_type(_project_id(request), request.match_info["type_id"])

    async def subscribers(self, request: web.Request) -> SubscribersAnswer:
        """Subscribers with the types that they have chosen, in the order of their accounts."""
        after, limit = wanted_page(request)
        search = request.query.get("search", "")
        found = await self._subscriptions.search(_project_id(request), search, after, limit + 1)
        return subscriber_page_fields(found, limit)

    async def subscribe(self, request: web.Request) -> SubscriberAnswer:
        """Subscribes the account, or changes its types. Without types it is all of them, later types too."""
        values = (await json_object(request)).values if await request.read() else {}
        wanted = models.NewSubscription(account_of(request), service.read_wanted_types(values))
        subscription, _ = await self._subscriptions.subscribe(_project_id(request), wanted)
        return subscription_fields(subscription)

    async def unsubscribe(self, request: web.Request) -> None:
        """Ends a subscription."""
        await self._subscriptions.unsubscribe(_project_id(request), account_of(request).key)

    async def analytics(self, request: web.Request) -> ProjectAnalyticsAnswer:
        """Notifications that were sent in a period, and how many of them were read, by type and by day."""
        first, last = request.query.get("from"), request.query.get("to")
        return analytics_fields(await self._projects.analytics(_project_id(request), first, last))


def _project_id(request: web.Request) -> str:
    return request.match_info["project_id"]


def account_of(request: web.Request) -> Account:
    """The account in the path. Raises InvalidInputError."""
    return read_account(request.match_info["account"])


_PROJECTS = "/admin/projects"
_PROJECT = f"{_PROJECTS}/{{project_id:{ANY_ID}}}"
_SECRET = f"{_PROJECT}/secrets/{{number:[0-9]{{1,18}}}}"
_LIMIT = f"{_PROJECT}/account-limit"
_WEBHOOK = f"{_PROJECT}/webhook"
_TYPES = f"{_PROJECT}/types"
_TYPE = f"{_TYPES}/{{type_id:{ANY_ID}}}"
_ACCOUNT = f"{{account:{ANY_ACCOUNT}}}"
_SUBSCRIBER = f"{_PROJECT}/subscribers/{_ACCOUNT}"
_SEARCH = Parameter("search", "Only this account, this address, or accounts that begin so.")
_DAY = {"type": "string", "format": "date"}
_PERIOD = (
    Parameter("from", "The first day; by default 29 days before the last one.", _DAY),
    Parameter("to", "The last day; by default today. At most 366 days are counted.", _DAY),
)
_UNKNOWN = (models.ProjectNotFoundError,)


def project_routes(projects: ProjectAdmin, rows: AdminRows) -> tuple[Route, ...]:
    """Projects with what belongs to them, and the devices of an account."""
    rows = rows.under("Projects")
    read, write = rows.read, rows.write
    return (
        read(_PROJECTS, "projects", projects.projects, "List projects", "The projects.",
             parameters=shapes.page_parameters()),
        write("POST", _PROJECTS, "create-project", projects.create_project,
              "Create a project", "The project and its secret.",
              body=ProjectShape, body_example={"name": "Example App", "project_id": "example-app"},
              problems=(models.ProjectExistsError,)),
        read(_PROJECT, "project", projects.project, "Show a project", "The project.", problems=_UNKNOWN),
        write("DELETE", _PROJECT, "delete-project", projects.delete_project,
              "Delete a project", "It is deleted.", problems=_UNKNOWN),
        write("POST", f"{_PROJECT}/secrets", "rotate-secret", projects.rotate_secret,
              "Make another secret", "The secret, which is shown only in this answer.",
              problems=(models.ProjectNotFoundError, models.TooManySecretsError)),
        write("DELETE", _SECRET, "revoke-secret", projects.revoke_secret, "Revoke a secret", "It is revoked.",
              parameters=(Parameter("number", "The number of a secret.", place="path", example="1"),),
              problems=(models.ProjectNotFoundError, models.SecretNotFoundError)),
        write("PUT", _LIMIT, "limit-accounts", projects.limit_accounts,
              "Set a project's own limit per account", "The limit.",
              body=AccountLimitShape, body_example={"per_hour": 4, "burst": 20}, problems=_UNKNOWN),
        write("DELETE", _LIMIT, "reset-account-limit", projects.reset_account_limit,
              "Remove a project's own limit per account", "It is removed.", problems=_UNKNOWN),
        write("PUT", _WEBHOOK, "set-project-webhook", projects.set_webhook,
              "Set the webhook for subscriptions",
              "The webhook, and its secret, which is shown only in this answer.",
              body=WebhookShape, body_example={"url": "https://app.example.org/subscriptions"},
              problems=_UNKNOWN),
        write("DELETE", _WEBHOOK, "remove-project-webhook", projects.remove_webhook,
              "Remove the webhook for subscriptions", "It is removed.", problems=_UNKNOWN),
        read(_TYPES, "types", projects.types, "List notification types", "The types.", problems=_UNKNOWN),
        write("POST", _TYPES, "add-type", projects.add_type, "Add a notification type", "The type.",
              body=TypeShape, body_example={"name": "Price alerts", "type_id": "price-alert"},
              problems=(models.ProjectNotFoundError, models.TypeExistsError, models.TooManyTypesError)),
        write("PUT", _TYPE, "rename-type", projects.rename_type, "Rename a notification type", "The type.",
              body=TypeNameShape, body_example={"name": "Prices"},
              problems=(models.ProjectNotFoundError, models.TypeNotFoundError)),
        write("DELETE", _TYPE, "remove-type", projects.remove_type,
              "Remove a notification type", "It is removed.",
              problems=(models.ProjectNotFoundError, models.TypeNotFoundError)),
        read(f"{_PROJECT}/subscribers", "project-subscribers", projects.subscribers,
             "List subscribers", "A page.", problems=_UNKNOWN,
             parameters=(*shapes.page_parameters(), _SEARCH)),
        write("PUT", _SUBSCRIBER, "subscribe-account", projects.subscribe,
              "Subscribe an account", "The subscription.", problems=_UNKNOWN,
              body=service.SubscriptionShape, body_example={"notification_types": ["price-alert"]},
              body_is_optional=True),
        write("DELETE", _SUBSCRIBER, "unsubscribe-account", projects.unsubscribe,
              "Unsubscribe an account", "The account does not subscribe any more.",
              problems=(InvalidInputError, models.ProjectNotFoundError, models.SubscriptionNotFoundError)),
        read(f"{_PROJECT}/analytics", "analytics", projects.analytics,
             "Show analytics", "The figures.", problems=_UNKNOWN, parameters=_PERIOD),
        read(f"/admin/accounts/{_ACCOUNT}/devices", "account-devices", projects.devices,
             "Show the devices of an account", "The devices.", problems=(InvalidInputError,)),
    )  # fmt: skip
