"""Who is subscribed to what, whoever says so: the account, or the operator."""

from collections.abc import Sequence

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.ids import IdMaker
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.projects.models import (
    Change,
    NewSubscription,
    ProjectId,
    Subscription,
    SubscriptionEvent,
    Webhook,
)
from bridge_server.projects.subscription_store import SubscriptionStore
from bridge_server.projects.webhook_events import PROJECT_EVENT, write_event


class Subscriptions:
    """The rules of subscribing. Whatever names a project that is not there raises ProjectNotFoundError."""

    def __init__(self, store: SubscriptionStore, clock: Clock, ids: IdMaker) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    async def subscribe(self, project_id: str, wanted: NewSubscription) -> tuple[Subscription, Change | None]:
        """Subscribe an account, or change its types; says what that changed. Raises UnknownTypesError."""
        (outcome,) = await self.subscribe_all(project_id, [wanted])
        return outcome

    async def subscribe_all(
        self, project_id: str, wanted: Sequence[NewSubscription]
    ) -> list[tuple[Subscription, Change | None]]:
        """Subscribe some hundred accounts in one transaction. Raises UnknownTypesError."""
        return await self._store.subscribe(
            ProjectId(project_id), wanted, self._clock.now_ms(), self._message_of
        )

    async def unsubscribe(self, project_id: str, account_keys: Sequence[str]) -> int:
        """End the subscriptions that there are of these accounts; returns how many there were."""
        return await self._store.unsubscribe(
            ProjectId(project_id), account_keys, self._clock.now_ms(), self._message_of
        )

    async def page(self, project_id: str, after: str, limit: int) -> list[Subscription]:
        """Up to `limit` subscriptions that follow the account `after`, in the order of their spelling."""
        return await self._store.page(ProjectId(project_id), after, limit)

    def _message_of(self, event: SubscriptionEvent, webhook: Webhook) -> OutgoingMessage:
        message_id = self._ids.random_uuid()
        return OutgoingMessage(
            message_id,
            webhook.url,
            write_event(event),
            PROJECT_EVENT,
            webhook.signing_secret,
            subject=event.project_id,
        )
