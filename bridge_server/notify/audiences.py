"""Notifications that the operator sends: to some accounts, or call by call to all subscribers."""

from bridge_server.notify.audience_store import AudienceStore
from bridge_server.notify.models import AudienceOutcome, AudienceRequest, NotifyRequest, SubscriberAudience
from bridge_server.notify.service import Notifications
from bridge_server.projects.models import ProjectId

_AT_ONCE = 500
"""The accounts of one call; an app's backend may name as many."""


class Audiences:
    """Sends for the operator, by the rules and limits of the project's own calls."""

    def __init__(self, store: AudienceStore, notifications: Notifications) -> None:
        self._store = store
        self._notifications = notifications

    async def notify(
        self, project_id: ProjectId, wanted: AudienceRequest, is_dry_run: bool
    ) -> AudienceOutcome:
        """Send to the next 500 of the audience. A dry run changes nothing.

        Raises ProjectNotFoundError, UnknownTypeError, UnknownAudienceError.
        """
        if isinstance(wanted.audience, SubscriberAudience):
            keys, following = await self._store.page(
                project_id, wanted.audience.type_id, wanted.after, _AT_ONCE
            )
        else:
            keys, following = dict(wanted.audience), None
        request = NotifyRequest(wanted.notification, wanted.notification_id, keys)
        failures = await self._notifications.notify(project_id, request, is_dry_run)
        return AudienceOutcome(keys, failures, following)
