"""The notification service that projects' backends call."""

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.projects import ProjectServices
from bridge_server.assembly.room import Room
from bridge_server.notify.handlers import NotifyHandlers
from bridge_server.notify.routes import notify_routes
from bridge_server.notify.service import Notifications
from bridge_server.notify.store import NotifyStore


def notify_room(foundation: Foundation, services: ProjectServices) -> Room:
    """Notifications to the subscribers of projects."""
    settings = foundation.settings
    notifications = Notifications(
        NotifyStore(foundation.database),
        foundation.clock,
        services.account_limit,
        read_kept_ms=settings.read_notification_ttl * 1000,
        unread_kept_ms=settings.unread_notification_ttl * 1000,
    )
    handlers = NotifyHandlers(notifications, services.projects)
    return Room(
        name="notify",
        routes=notify_routes(handlers, settings.notify_body_limit),
        sweeps=(notifications.sweep,),
    )
