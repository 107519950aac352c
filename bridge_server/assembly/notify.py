"""The notification service that projects' backends call."""

from collections.abc import Sequence

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.projects import ProjectServices
from bridge_server.assembly.room import Room
from bridge_server.notify.events import Delivered
from bridge_server.notify.handlers import NotifyHandlers
from bridge_server.notify.missing import MissedLimits
from bridge_server.notify.routes import notify_routes
from bridge_server.notify.sending import SendingLimits
from bridge_server.notify.service import NotificationLifetimes, Notifications
from bridge_server.notify.store import NotifyStore
from bridge_server.settings.settings import Settings
from bridge_server.web.families import Family

_OUTCOMES = (
    "Accounts of calls to notify since the start, by the outcome: sent, rate_limited, type_not_subscribed, "
    "not_subscribed."
)


def notifications_of(foundation: Foundation, services: ProjectServices) -> Notifications:
    """Notifications to the subscribers of projects."""
    limits = SendingLimits(services.account_limit, foundation.live.held(_missed_limits))
    return Notifications(
        NotifyStore(foundation.database), foundation.clock, limits, _lifetimes(foundation.settings)
    )


def notify_room(foundation: Foundation, services: ProjectServices, notifications: Notifications) -> Room:
    """The endpoints of notifications."""
    handlers = NotifyHandlers(notifications, services.projects)
    outcomes = notifications.outcomes
    foundation.events.subscribe(Delivered, lambda event: outcomes.update(sent=len(event.accounts)))

    async def families() -> Sequence[Family]:
        rows: dict[tuple[str, ...], float] = {(outcome,): count for outcome, count in outcomes.items()}
        return [Family("notifications", _OUTCOMES, rows, ("outcome",), is_total=True)]

    return Room(
        name="notify",
        families=families,
        routes=notify_routes(handlers, foundation.settings.notify_body_limit),
        sweeps=(notifications.sweep,),
    )


def _lifetimes(settings: Settings) -> NotificationLifetimes:
    return NotificationLifetimes(
        read_kept_ms=settings.read_notification_ttl * 1000,
        unread_kept_ms=settings.unread_notification_ttl * 1000,
        missed_kept_ms=settings.missed_account_ttl * 1000,
    )


def _missed_limits(settings: Settings) -> MissedLimits:
    return MissedLimits(settings.max_missed_accounts)
