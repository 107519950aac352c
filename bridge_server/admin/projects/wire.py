"""JSON of projects in the admin API, which commands with --json print too."""

import re
from collections.abc import Sequence
from typing import Any

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.kernel.token_bucket import MICROSECONDS, Limit
from bridge_server.projects.caip10 import Account, parse_account
from bridge_server.projects.device_states import DeviceState
from bridge_server.projects.models import (
    NewSecret,
    NotificationType,
    Project,
    ProjectDetails,
    ProjectOverview,
    Subscription,
    Webhook,
)

SUCCESS = b'{"success":true}'

_HOUR_US = 3600 * MICROSECONDS
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_DIGITS = 6
"""The digits of a rate per hour, which is stored as whole microseconds between two tokens."""


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
