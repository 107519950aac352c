"""The body of a message to a project's webhook."""

import orjson

from bridge_server.kernel.instants import rfc3339
from bridge_server.outbox.models import Purpose
from bridge_server.projects.models import SubscriptionEvent

PROJECT_EVENT = Purpose("project-event")
"""The purpose of a message to a project's webhook: its subject is the project."""


def write_event(event: SubscriptionEvent) -> bytes:
    """The JSON of a change of a subscription, with the types after the change."""
    return orjson.dumps(
        {
            "event": event.change.value,
            "number": event.number,
            "project_id": event.project_id,
            "account": event.subscription.account,
            "notification_types": event.subscription.types,
            "at": rfc3339(event.at_ms),
        }
    )
