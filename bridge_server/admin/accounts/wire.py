"""JSON of accounts in the admin API."""

from typing import Any

from bridge_server.admin.accounts.models import AccountView, ProjectView
from bridge_server.admin.notifications.wire import outcome_moments
from bridge_server.admin.projects.wire import account_limit_fields, devices_fields, subscription_fields
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.kernel.token_bucket import Limit
from bridge_server.notify.history_models import AccountBucket, AccountNotification
from bridge_server.projects.device_states import DeviceDelivery


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
