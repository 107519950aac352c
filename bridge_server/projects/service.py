"""Management of projects by the operator, and analytics: what a project has sent and what was read. A read
counts for the day (UTC) of the sending, however much later it happens.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.kernel.events import Events
from bridge_server.kernel.fields import http_url
from bridge_server.kernel.instants import day_of, parse_day
from bridge_server.kernel.secrets import digest, is_one_of, new_secret
from bridge_server.kernel.token_bucket import MICROSECONDS, Limit
from bridge_server.outbox.sender import new_signing_secret
from bridge_server.projects import models
from bridge_server.projects.devices import DeviceStateStore
from bridge_server.projects.models import NewSecret, NotificationType, Project, ProjectId, ReadFigures, TypeId
from bridge_server.projects.store import Credentials, ProjectStore
from bridge_server.projects.subscriptions import Subscriptions
from bridge_server.storage.database import ChangedOutside
from bridge_server.web.bodies import Shape, check

USUAL_DAYS = 30
MOST_DAYS = 366

LIVE_SECRETS = 2
SECRET_PREFIX = "bsk_"  # noqa: S105 - a prefix by which scanners find leaked secrets
MOST_TYPES = 256
LEAST_PER_HOUR = 0.001
MOST_PER_HOUR = 1_000_000
MOST_AT_ONCE = 1_000_000
_HOUR_SECONDS = 3600
_EVERY_PROJECT = 2**62
_MOST_KNOWN = 1_000  # projects whose credentials are kept at once


class Period(NamedTuple):
    """A range of days since the Unix epoch, the first and the last included."""

    first_day: int
    last_day: int


class TypeAnalytics(NamedTuple):
    """The figures of one notification type, by the days on which something was sent."""

    type_id: TypeId
    days: Sequence[models.DailyFigures]

    @property
    def total(self) -> ReadFigures:
        """The figures of all days together."""
        return _sum_of(day.figures for day in self.days)


class DayAnalytics(NamedTuple):
    """The figures of one day, by the types of which something was sent on it."""

    day: int
    types: Sequence[models.DailyFigures]

    @property
    def total(self) -> ReadFigures:
        """The figures of all types together."""
        return _sum_of(daily.figures for daily in self.types)


class Analytics(NamedTuple):
    """The figures of a project in a period."""

    project_id: str
    period: Period
    types: Sequence[TypeAnalytics]

    @property
    def total(self) -> ReadFigures:
        """The figures of all types together."""
        return _sum_of(kind.total for kind in self.types)

    @property
    def by_day(self) -> Sequence[DayAnalytics]:
        """Every day of the period, the earliest first, also days on which nothing was sent."""
        period = self.period
        every_day = range(period.first_day, period.last_day + 1)
        days: dict[int, list[models.DailyFigures]] = {day: [] for day in every_day}
        for kind in self.types:
            for daily in kind.days:
                days[daily.day].append(daily)
        return [DayAnalytics(day, types) for day, types in days.items()]


class Projects:
    """Manages projects. A method that changes something returns when the change is on disk. An unknown
    project raises ProjectNotFoundError; an invalid name or id raises InvalidInputError.
    """

    def __init__(self, store: ProjectStore, clock: Clock, random_bytes: Callable[[int], bytes]) -> None:
        self.store = store
        self._clock, self._random_bytes = clock, random_bytes
        self._known: dict[ProjectId, Credentials] | None = None

    def subscribe_to(self, events: Events) -> None:
        """Keep the credentials that are read, until an event tells that the project has changed."""
        self._known = {}
        events.subscribe(models.ProjectChanged, self._forget, everywhere=True)
        events.subscribe(ChangedOutside, lambda _: self._forget_all())
        events.on_gap(self._forget_all)

    async def create(self, name: str, project_id: str | None = None) -> tuple[Project, NewSecret]:
        """Create a project and its first secret; only a digest of it is stored. Without an id it gets one
        that is made from its name, or else 32 hexadecimal digits. Raises ProjectExistsError.
        """
        chosen = models.checked_name(name)
        if project_id is None:
            wanted = [*models.project_ids_of_name(chosen), ProjectId(self._random_bytes(16).hex())]
        else:
            wanted = [models.checked_project_id(project_id)]
        secret = SECRET_PREFIX + new_secret(self._random_bytes)
        project, number = await self.store.create(wanted, chosen, digest(secret), self._clock.now_ms())
        return project, NewSecret(number, secret)

    async def overview(self, after: int = 0, limit: int = _EVERY_PROJECT) -> list[models.ProjectOverview]:
        """Projects after this number, oldest first: with types, subscribers, figures of the last 30 days."""
        period = read_period(None, None, self._clock.now_ms())
        return await self.store.overview(period.first_day, period.last_day, after, limit)

    async def ensure(self, project_id: str, name: str, secret: str, types: Mapping[str, str]) -> bool:
        """Have a project with this very secret and these types; returns whether there was none of this id. An
        existing project keeps its name, and loses its oldest secret when it has no place for another.
        """
        chosen, now_ms, is_new = models.checked_project_id(project_id), self._clock.now_ms(), True
        try:
            await self.store.create([chosen], models.checked_name(name), digest(secret), now_ms)
        except models.ProjectExistsError:
            is_new = False
            if await self.authenticate(chosen, secret) is None:
                secrets = (await self.store.details(chosen)).secrets
                if len(secrets) >= LIVE_SECRETS:
                    await self.store.remove_secret(chosen, min(each.number for each in secrets))
                await self.store.add_secret(chosen, digest(secret), now_ms, LIVE_SECRETS)
        for type_id, type_name in types.items():
            with suppress(models.TypeExistsError):
                await self.add_type(chosen, type_name, type_id)
        return is_new

    async def show(self, project_id: str) -> models.ProjectDetails:
        """A project with its types, secrets and number of subscribers."""
        return await self.store.details(ProjectId(project_id))

    async def delete(self, project_id: str) -> None:
        """Delete a project with its subscriptions, notifications and analytics."""
        await self.store.delete(ProjectId(project_id))

    async def authenticate(self, project_id: str, secret: str) -> models.Publisher | None:
        """The project, if the secret is one of its live secrets; None otherwise."""
        return _publisher(await self.store.credentials(ProjectId(project_id)), secret)

    async def recognize(self, project_id: str, secret: str) -> models.Publisher | None:
        """Like `authenticate`, but by credentials that were read before, while no change is known of. For a
        second nobody notices that a command has revoked a secret: whatever this lets in looks for the secret
        in its statement, and has the project forgotten if it is gone.
        """
        known = self._known
        if known is None:
            return await self.authenticate(project_id, secret)
        chosen = ProjectId(project_id)
        publisher = _publisher(known.get(chosen), secret)
        if publisher is not None:
            return publisher
        found = await self.store.credentials(chosen)
        if found is not None and known is self._known:  # else something has changed meanwhile
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[chosen] = found
        return _publisher(found, secret)

    def _forget(self, event: models.ProjectChanged) -> None:
        self.forget(event.project_id)

    def forget(self, project_id: str) -> None:
        """Read the credentials of the project again when they are needed."""
        if self._known is not None:  # a new dictionary: what is being read meanwhile is kept in the old one
            self._known = {name: known for name, known in self._known.items() if name != project_id}

    def _forget_all(self) -> None:
        self._known = {}

    async def rotate_secret(self, project_id: str) -> NewSecret:
        """Create a second secret; the first stays valid. Raises TooManySecretsError."""
        secret = SECRET_PREFIX + new_secret(self._random_bytes)
        chosen, now_ms = ProjectId(project_id), self._clock.now_ms()
        number = await self.store.add_secret(chosen, digest(secret), now_ms, LIVE_SECRETS)
        return NewSecret(number, secret)

    async def revoke_secret(self, project_id: str, number: int) -> None:
        """Revoke a secret at once. Raises SecretNotFoundError."""
        await self.store.remove_secret(ProjectId(project_id), number)

    async def limit_accounts(self, project_id: str, per_hour: float, burst: int) -> Project:
        """Limit the project to `per_hour` notifications on average and `burst` at once to one account."""
        return await self.store.set_account_limit(ProjectId(project_id), account_limit(per_hour, burst))

    async def reset_account_limit(self, project_id: str) -> Project:
        """Remove the project's limit per account, so that the server's applies again."""
        return await self.store.set_account_limit(ProjectId(project_id), None)

    async def set_webhook(self, project_id: str, url: str) -> models.Webhook:
        """Send every change of a subscription to the URL, signed with a new secret."""
        try:
            webhook = models.Webhook(http_url(url), new_signing_secret(self._random_bytes))
        except ValueError as error:
            raise InvalidInputError(f"The url {error}.", [Fault("#/url", str(error))]) from error
        await self.store.set_webhook(ProjectId(project_id), webhook)
        return webhook

    async def remove_webhook(self, project_id: str) -> None:
        """Remove the project's webhook."""
        await self.store.set_webhook(ProjectId(project_id), None)

    async def types(self, project_id: str) -> Sequence[NotificationType]:
        """The project's notification types, oldest first."""
        return await self.store.types(ProjectId(project_id))

    async def add_type(self, project_id: str, name: str, type_id: str | None = None) -> NotificationType:
        """Add a type, which only subscribers to all types receive at first; by default its id is made
        from its name. Raises TypeExistsError, TooManyTypesError.
        """
        name, now_ms = models.checked_name(name), self._clock.now_ms()
        chosen = None if type_id is None else models.checked_type_id(type_id)

        def id_among(taken: AbstractSet[TypeId]) -> TypeId:
            return models.type_id_of_name(name, taken) if chosen is None else chosen

        return await self.store.add_type(ProjectId(project_id), id_among, name, now_ms, MOST_TYPES)

    async def rename_type(self, project_id: str, type_id: str, name: str) -> NotificationType:
        """Change the displayed name of a type; its id stays. Raises TypeNotFoundError."""
        return await self.store.rename_type(ProjectId(project_id), TypeId(type_id), models.checked_name(name))

    async def remove_type(self, project_id: str, type_id: str) -> None:
        """Remove a type, also from every subscription. Raises TypeNotFoundError."""
        await self.store.remove_type(ProjectId(project_id), TypeId(type_id), self._clock.now_ms())

    async def analytics(self, project_id: str, first: str | None, last: str | None) -> Analytics:
        """The analytics from the day `first` to the day `last`; by default of the last 30 days."""
        period = read_period(first, last, self._clock.now_ms())
        by_type: dict[TypeId, list[models.DailyFigures]] = {}  # in the order of their first sending
        for daily in await self.figures(project_id, period.first_day, period.last_day):
            by_type.setdefault(daily.type_id, []).append(daily)
        types = [TypeAnalytics(type_id, days) for type_id, days in by_type.items()]
        return Analytics(project_id, period, types)

    async def figures(self, project_id: str, first_day: int, last_day: int) -> list[models.DailyFigures]:
        """The figures from `first_day` to `last_day` (days since the Unix epoch), by day and type."""
        return await self.store.figures(ProjectId(project_id), first_day, last_day)

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of the rows of deleted projects; returns how many rows."""
        return await self.store.sweep(now_ms)


class ProjectServices(NamedTuple):
    """The services of projects."""

    projects: Projects
    subscriptions: Subscriptions
    device_states: DeviceStateStore
    account_limit: Limit  # the limit per account of projects that have no limit of their own


def _publisher(known: Credentials | None, secret: str) -> models.Publisher | None:
    """The project, if the secret is one of these; takes as long for a project that is not there."""
    project, digests = known if known is not None else (None, [digest("")])
    sent = digest(secret)
    is_valid = is_one_of(sent, digests)
    return models.Publisher(project, sent) if project is not None and is_valid else None


def account_limit(per_hour: float, burst: int) -> Limit:
    """The rate limit of notifications from one project to one account. Raises InvalidInputError."""
    faults = []
    if not LEAST_PER_HOUR <= per_hour <= MOST_PER_HOUR:
        faults.append(Fault("#/per_hour", f"must be {LEAST_PER_HOUR} to {MOST_PER_HOUR}"))
    if not 1 <= burst <= MOST_AT_ONCE:
        faults.append(Fault("#/burst", f"must be 1 to {MOST_AT_ONCE}"))
    if faults:
        raise InvalidInputError("The limit is out of range.", faults)
    return Limit(models.ACCOUNT_LIMIT, burst, round(_HOUR_SECONDS * MICROSECONDS / per_hour))


def read_period(first: str | None, last: str | None, now_ms: int) -> Period:
    """The days from `first` to `last`; by default the last 30 days. Raises InvalidInputError."""
    last_day = _day("to", last) if last is not None else day_of(now_ms)
    first_day = _day("from", first) if first is not None else max(0, last_day - USUAL_DAYS + 1)
    if first_day > last_day:
        raise InvalidInputError("The period ends before it begins: from must not be later than to.")
    if last_day - first_day >= MOST_DAYS:
        raise InvalidInputError(f"The period is too long: ask for at most {MOST_DAYS} days at once.")
    return Period(first_day, last_day)


def _day(name: str, text: str) -> int:
    try:
        day = parse_day(text)
    except ValueError as error:
        raise InvalidInputError(f"{name} must be a day, such as 2026-01-31.") from error
    if day < 0:
        raise InvalidInputError(f"{name} must not be before 1970.")
    return day


def _sum_of(figures: Iterable[ReadFigures]) -> ReadFigures:
    return sum(figures, start=models.NO_FIGURES)


class SubscriptionShape(Shape):
    """The body of a PUT that subscribes an account to a project."""

    notification_types: Annotated[list[str], Field(max_length=MOST_TYPES)] | None = None


def read_wanted_types(values: dict[str, Any]) -> tuple[TypeId, ...] | None:
    """Read the types of a subscription; None if they are missing, which means all types and later ones."""
    types = check(SubscriptionShape, values).notification_types
    return None if types is None else tuple(map(TypeId, types))
