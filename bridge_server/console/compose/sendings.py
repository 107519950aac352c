"""Sendings of the console: a walk through an audience, call by call, which can be left and taken up again.

They are kept in memory. After a restart a walk begins anew with its notification_id, by which nobody is sent
to twice.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bridge_server.admin.notifications.wire import audience_outcome_fields
from bridge_server.console.compose.reach import Reach
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import NotFoundError
from bridge_server.kernel.secrets import new_secret
from bridge_server.notify.audiences import Audiences
from bridge_server.notify.models import AudienceRequest
from bridge_server.projects.models import ProjectId

MOST_SENDINGS = 20
CALLS_AT_ONCE = 4
"""Calls of 500 accounts that are made for one request of the browser, so that its page shows progress."""
CALLS_REHEARSED = 10


@dataclass(slots=True)
class AudienceWalk:
    """A notification on its way. The next call goes to the accounts after `after`; None at the end."""

    name: str
    project_id: ProjectId
    request: AudienceRequest
    begun_at_ms: int
    after: str | None
    tally: Reach = field(default_factory=Reach)


class Sendings:
    """The sendings of the last time; the oldest go when there are too many."""

    def __init__(self, audiences: Audiences, clock: Clock, random_bytes: Callable[[int], bytes]) -> None:
        self._audiences = audiences
        self._clock = clock
        self._random_bytes = random_bytes
        self._kept: OrderedDict[str, AudienceWalk] = OrderedDict()

    async def rehearse(self, project_id: ProjectId, request: AudienceRequest) -> AudienceWalk:
        """A forecast of the first calls. Nothing is sent or kept."""
        rehearsed = self._new(project_id, request)
        await self._walk(rehearsed, CALLS_REHEARSED, is_dry_run=True)
        return rehearsed

    async def begin(self, project_id: ProjectId, request: AudienceRequest) -> AudienceWalk:
        """Send to the first of the audience. A sending whose first call is refused is not kept."""
        sending = self._new(project_id, request)
        await self._walk(sending, 1)
        self._kept[sending.name] = sending
        while len(self._kept) > MOST_SENDINGS:
            self._kept.popitem(last=False)
        await self._walk(sending, CALLS_AT_ONCE - 1)
        return sending

    async def go_on(self, name: str) -> AudienceWalk:
        """Send to the next of the audience. Raises NotFoundError."""
        sending = self.of(name)
        await self._walk(sending, CALLS_AT_ONCE)
        return sending

    def of(self, name: str) -> AudienceWalk:
        """The sending of this name. Raises NotFoundError."""
        sending = self._kept.get(name)
        if sending is None:
            raise NotFoundError(
                "The console has forgotten this sending, for instance because the server was restarted. Send "
                "the notification again from its page under Notifications: nobody gets it twice."
            )
        return sending

    def last_ones(self, project_id: str) -> list[AudienceWalk]:
        """The sendings of the project, the latest first."""
        return [each for each in reversed(self._kept.values()) if each.project_id == project_id]

    def _new(self, project_id: ProjectId, request: AudienceRequest) -> AudienceWalk:
        name = new_secret(self._random_bytes)
        return AudienceWalk(name, project_id, request, self._clock.now_ms(), request.after)

    async def _walk(self, sending: AudienceWalk, most_calls: int, *, is_dry_run: bool = False) -> None:
        for _ in range(most_calls):
            if sending.after is None:
                return
            await self._step(sending, sending.after, is_dry_run)

    async def _step(self, sending: AudienceWalk, after: str, is_dry_run: bool) -> None:
        request = replace(sending.request, after=after)
        outcome = await self._audiences.notify(sending.project_id, request, is_dry_run)
        if sending.after == after:  # another window may have made the same call: it counts once
            sending.after = outcome.next
            sending.tally.add(audience_outcome_fields(outcome))
