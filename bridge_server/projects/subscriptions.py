"""Subscriptions of accounts to projects, changed by the account or by the operator."""

from collections.abc import Sequence

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.ids import IdMaker
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.projects.caip10 import account_key
from bridge_server.projects.models import (
    NewSubscription,
    Project,
    ProjectId,
    Subscription,
    SubscriptionChange,
    SubscriptionEvent,
    Webhook,
)
from bridge_server.projects.subscription_store import SubscriptionStore
from bridge_server.projects.webhook_events import PROJECT_EVENT, write_event


class Subscriptions:
    """Reads and changes subscriptions. An unknown project raises ProjectNotFoundError."""

    def __init__(self, store: SubscriptionStore, clock: Clock, ids: IdMaker) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    async def subscribe(
        self, project_id: str, wanted: NewSubscription
    ) -> tuple[Subscription, SubscriptionChange | None]:
        """Subscribe an account, or change its types; returns the change too. Raises UnknownTypesError."""
        (outcome,) = await self.subscribe_all(project_id, [wanted])
        return outcome

    async def subscribe_all(
        self, project_id: str, wanted: Sequence[NewSubscription]
    ) -> list[tuple[Subscription, SubscriptionChange | None]]:
        """Subscribe several hundred accounts in one transaction. Raises UnknownTypesError."""
        return await self._store.subscribe(
            ProjectId(project_id), wanted, self._clock.now_ms(), self._message_of
        )

    async def unsubscribe(self, project_id: str, account_keys: Sequence[str]) -> int:
        """Unsubscribe accounts; returns how many were subscribed."""
        return await self._store.unsubscribe(
            ProjectId(project_id), account_keys, self._clock.now_ms(), self._message_of
        )

    async def page(self, project_id: str, after: str, limit: int) -> list[Subscription]:
        """Up to `limit` subscriptions after the account id `after`, ordered by account id."""
        return await self._store.page(ProjectId(project_id), after, limit)

    async def projects_of(self, account_key: str, limit: int) -> list[Project]:
        """Up to `limit` projects that an account is subscribed to, oldest first."""
        return await self._store.projects_of(account_key, limit)

    async def of_account(self, project: Project, account_key: str) -> Subscription | None:
        """The subscription of an account to a project; None if it has none."""
        return await self._store.of_account(project, account_key)

    async def search(self, project_id: str, text: str, after: str, limit: int) -> list[Subscription]:
        """The subscription of the account that the text names, on any chain.

        Otherwise up to `limit` subscriptions whose account ids begin with the text and come after `after`.
        """
        key = _searched_account(text)
        found = None if key is None else await self._store.find(ProjectId(project_id), key)
        return [found] if found else await self._store.page(ProjectId(project_id), after, limit, text)

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


def _searched_account(text: str) -> str | None:
    """The account key of an account id or of an Ethereum address; None if the text is neither."""
    try:
        return account_key(f"eip155:1:{text}" if text.startswith("0x") else text)
    except ValueError:
        return None
