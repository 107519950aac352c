"""Subscriptions of an account, changed by the account."""

from bridge_server.inbox.models import Overview, Reader
from bridge_server.inbox.store import InboxStore
from bridge_server.projects.errors import SubscriptionNotFoundError
from bridge_server.projects.models import NewSubscription, Subscription, TypeId
from bridge_server.projects.subscriptions import Subscriptions


class InboxSubscriptions:
    """Reads and changes an account's subscriptions. An unknown project raises ProjectNotFoundError."""

    def __init__(self, store: InboxStore, subscriptions: Subscriptions) -> None:
        self._store = store
        self._subscriptions = subscriptions

    async def overview(self, reader: Reader) -> Overview:
        """The account's subscriptions with their numbers of unread notifications."""
        return await self._store.overview(reader.number)

    async def subscribe(
        self, reader: Reader, project_id: str, types: tuple[TypeId, ...] | None
    ) -> Subscription:
        """Subscribe to types of a project; None: to all, including later ones. Raises UnknownTypesError."""
        wanted = NewSubscription(reader.account, types)
        subscription, _ = await self._subscriptions.subscribe(project_id, wanted)
        return subscription

    async def unsubscribe(self, reader: Reader, project_id: str) -> None:
        """Unsubscribe from a project. Raises SubscriptionNotFoundError."""
        if not await self._subscriptions.unsubscribe(project_id, [reader.account.key]):
            raise SubscriptionNotFoundError
