"""What projects and subscriptions need of a store. One method is one transaction, or one read."""

from collections.abc import Callable, Sequence, Set
from typing import Protocol, TypeAlias

from bridge_server.kernel.token_bucket import Limit
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.projects.models import (
    Change,
    DailyFigures,
    NewSubscription,
    NotificationType,
    Project,
    ProjectDetails,
    ProjectId,
    Subscription,
    SubscriptionEvent,
    TypeId,
    Webhook,
)

MessageOf: TypeAlias = Callable[[SubscriptionEvent, Webhook], OutgoingMessage]
"""Writes what a project's webhook is told."""


IdAmong: TypeAlias = Callable[[Set[TypeId]], TypeId]
"""Chooses the id of a new type, given those that the project has."""


class ProjectStore(Protocol):
    """Durable projects. Whatever names a project that is not there raises ProjectNotFoundError."""

    async def create(
        self, project_id: ProjectId, name: str, digest: bytes, now_ms: int
    ) -> tuple[Project, int]:
        """Store a project with the SHA-256 of its first secret; returns it and that secret's number.

        Raises ProjectExistsError.
        """
        ...

    async def projects(self) -> list[Project]:
        """Every project, oldest first."""
        ...

    async def details(self, project_id: ProjectId) -> ProjectDetails:
        """One project and what belongs to it."""
        ...

    async def delete(self, project_id: ProjectId) -> None:
        """Remove the project from sight at once; sweeping removes what belongs to it."""
        ...

    async def credentials(self, project_id: ProjectId) -> tuple[Project, Sequence[bytes]] | None:
        """The project and the digests of its live secrets; None when there is no such project."""
        ...

    async def add_secret(self, project_id: ProjectId, digest: bytes, now_ms: int, limit: int) -> int:
        """Store the SHA-256 of another secret; returns its number. Raises TooManySecretsError."""
        ...

    async def remove_secret(self, project_id: ProjectId, number: int) -> None:
        """Remove a secret. Raises SecretNotFoundError."""
        ...

    async def set_account_limit(self, project_id: ProjectId, limit: Limit | None) -> Project:
        """Give the project a limit per account of its own, or with None the server's again."""
        ...

    async def set_webhook(self, project_id: ProjectId, webhook: Webhook | None) -> Project:
        """Replace the project's webhook, or with None remove it."""
        ...

    async def types(self, project_id: ProjectId) -> list[NotificationType]:
        """The project's types, oldest first."""
        ...

    async def add_type(
        self, project_id: ProjectId, id_among: IdAmong, name: str, now_ms: int, limit: int
    ) -> NotificationType:
        """Store a type, and let those who have chosen every type have it. Raises TypeExistsError,
        TooManyTypesError.
        """
        ...

    async def rename_type(self, project_id: ProjectId, type_id: TypeId, name: str) -> NotificationType:
        """Give a type another name. Raises TypeNotFoundError."""
        ...

    async def remove_type(self, project_id: ProjectId, type_id: TypeId, now_ms: int) -> None:
        """Remove a type from the project and from every subscription. Raises TypeNotFoundError."""
        ...

    async def figures(self, project_id: ProjectId, first_day: int, last_day: int) -> list[DailyFigures]:
        """What was sent on these days, by day and type."""
        ...

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of what deleted projects have left behind; returns how many rows."""
        ...


class SubscriptionStore(Protocol):
    """Durable subscriptions. Whatever names a project that is not there raises ProjectNotFoundError."""

    async def subscribe(
        self,
        project_id: ProjectId,
        wanted: Sequence[NewSubscription],
        now_ms: int,
        message_of: MessageOf,
    ) -> list[tuple[Subscription, Change | None]]:
        """Store the subscriptions, all or none, and queue what the webhook is told of each that changed.

        Returns each with what became of it; None when it was there already, just so. Raises
        UnknownTypesError.
        """
        ...

    async def unsubscribe(
        self, project_id: ProjectId, account_keys: Sequence[str], now_ms: int, message_of: MessageOf
    ) -> int:
        """Remove those that are subscribed, and queue what the webhook is told; returns how many."""
        ...

    async def page(self, project_id: ProjectId, after: str, limit: int) -> list[Subscription]:
        """The subscriptions that follow the account `after`, in the order of their spelling."""
        ...
