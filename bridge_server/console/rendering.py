"""How a page is rendered: its frame and navigation, notices and failures, changes as they come, words."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, get_args

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from bridge_server.admin import projects
from bridge_server.console import models
from bridge_server.kernel.errors import BridgeError, InvalidInputError
from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.kernel.secrets import new_secret
from bridge_server.projects.service import ProjectServices
from bridge_server.wallet.visible_text import visible
from bridge_server.web.addresses import host_of
from bridge_server.web.answers import KEEP_ALIVE, EventStream, WholeAnswer, page_headers
from bridge_server.web.problems import status_of

# Messages that the page after a change shows once. They are kept in memory: some of them show a secret.

NOTICE = "notice"  # the query parameter that names a message

_MOST_NOTICES = 100


class OneTimeNotices:
    """Messages that no page has shown yet; the oldest go when there are too many."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._kept: OrderedDict[tuple[bytes, str], models.Done] = OrderedDict()

    def keep(self, session: models.ConsoleSession, done: models.Done) -> str:
        """Keep the message of a change; returns the name under which its page finds it."""
        name = new_secret(self._random_bytes)
        self._kept[session.digest, name] = done
        while len(self._kept) > _MOST_NOTICES:
            self._kept.popitem(last=False)
        return name

    def take(self, session: models.ConsoleSession, name: str) -> models.Done | None:
        """The message of this name, once; None if there is none, or it is another session's."""
        return self._kept.pop((session.digest, name), None)


# Live pages: streams of server-sent events name the topics that have changed since a page was made.
#
# A browser then loads its page again. So a stream carries no data, and a thousand changes in a second are one
# event.

MOST_WATCHES = 64
_GATHERING_SECONDS = 0.5
_KEEP_ALIVE_SECONDS = 15.0


class PageChanges:
    """The number of each topic's last change. Numbers grow, also from one run of the server to the next."""

    def __init__(self, first_number: int, topics: Sequence[str]) -> None:
        self.number = first_number
        self._last = dict.fromkeys(topics, first_number)
        self._watches: dict[Watch, None] = {}
        self._is_over = False

    def follow(
        self, events: Events, topics: Mapping[str, Sequence[type[DomainEvent]]], everything: type[DomainEvent]
    ) -> None:
        """Note the changes that commits announce, in any process; `everything` changes every topic."""
        for topic, kinds in topics.items():
            for kind in kinds:
                events.subscribe(kind, partial(self.note, topic), everywhere=True)
            events.subscribe(everything, partial(self.note, topic))
            events.on_gap(partial(self.note, topic))

    def note(self, topic: str, _: DomainEvent | None = None) -> None:
        """Count a change of the topic."""
        self.number += 1
        self._last[topic] = self.number
        for watch in self._watches:
            watch.wake()

    def watch(self, topics: Sequence[str], since: int) -> "Watch":
        """A stream of changes after the number `since`. The oldest stream ends when there are too many."""
        if len(self._watches) >= MOST_WATCHES:
            next(iter(self._watches)).end()
        watch = Watch(self, [topic for topic in topics if topic in self._last], since)
        self._watches[watch] = None
        if self._is_over:
            watch.end()
        return watch

    def changed(self, topics: Sequence[str], since: int) -> list[str]:
        """The topics among these that have changed after that number."""
        return [topic for topic in topics if self._last[topic] > since]

    def is_watched(self, topic: str) -> bool:
        """Whether an open page waits for changes of the topic."""
        return any(topic in watch.topics for watch in self._watches)

    def leave(self, watch: "Watch") -> None:
        """Forget a stream."""
        self._watches.pop(watch, None)

    def end(self) -> None:
        """End every stream: the server stops."""
        self._is_over = True
        for watch in list(self._watches):
            watch.end()


class Watch:
    """The stream of one open page."""

    def __init__(self, changes: PageChanges, topics: Sequence[str], since: int) -> None:
        self._changes, self.topics, self._since = changes, topics, since
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()

    async def flow(self, outlet: EventStream) -> None:
        """Write an event for each topic that has changed, until the page is gone."""
        # Python 3.11's `wait_for` would swallow a cancellation that comes together with a change.
        while not self._ended.is_set():
            self._changed.clear()
            topics, number = self._changes.changed(self.topics, self._since), self._changes.number
            if topics:
                self._since = number
                events = [f"id: {number}\nevent: changed-{topic}\ndata: {number}\n\n" for topic in topics]
                await outlet.write("".join(events).encode())
                with suppress(TimeoutError):
                    async with asyncio.timeout(_GATHERING_SECONDS):
                        await self._ended.wait()
                continue
            try:
                async with asyncio.timeout(_KEEP_ALIVE_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                await outlet.write(KEEP_ALIVE)

    def wake(self) -> None:
        """Wake the stream: a topic has changed."""
        self._changed.set()

    def end(self) -> None:
        """Write no more events."""
        self._ended.set()
        self._changed.set()

    def leave(self) -> None:
        """Leave the streams: this one is over, or never began."""
        self._changes.leave(self)


# Joiners and variation selectors inside an emoji, and spaces between thousands, stay as they are.
_SEEN = re.compile(
    r"((?<=[\u2600-\u27bf\U0001f000-\U0001faff])[\u200d\ufe0f]{1,2}|(?<=[0-9])\u00a0(?=[0-9]{3}))"
)

_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)

_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def count_of(number: int) -> str:
    """A number with a no-break space between thousands."""
    return f"{number:,}".replace(",", "\N{NO-BREAK SPACE}")


def duration_of(milliseconds: int) -> str:
    """A duration in its two largest units, such as `1 d 2 h`."""
    left, parts = abs(milliseconds) // 1000, []
    for seconds, unit in _STEPS:
        number, left = divmod(left, seconds)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"


def moment_of(at: str | None) -> Markup:
    """A moment of the admin API. A script writes it in the viewer's time zone: of this day the time alone."""
    if not at:
        return Markup()
    at = seen(at)
    title = f"{at[:10]} {at[11:].removesuffix('Z')} UTC"
    return Markup('<time datetime="{}" title="{}">{} {}</time>').format(at, title, at[:10], at[11:19])


def seen(text: str) -> str:
    """The text with its unseen characters as `<U+202E>`."""
    return "".join(part if number % 2 else visible(part) for number, part in enumerate(_SEEN.split(text)))


# Templates become answers. Whatever a field holds is shown as text, its unseen characters made visible.

_FOLDER = Path(__file__).parent
HEADERS = page_headers()
"""The headers of every page: it runs this server's scripts alone, in no frame, and stays in no cache."""


class Rendering:
    """The templates in the folders of the pages, and in `layout`."""

    def __init__(self, constants: Mapping[str, Any]) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.filters.update(
            # The spaces between thousands are no text of a stranger.
            count=lambda number: escape(count_of(number)),
            duration=duration_of,
            exact=escape,  # fills fields of forms: a form that is sent unchanged changes nothing
            lines=lambda text: escape("\n".join(map(seen, text.split("\n")))),
            moment=moment_of,
        )
        self._templates.globals.update(constants)

    def page(self, template: str, fields: Mapping[str, Any], status: int = 200) -> web.Response:
        """The template with these fields."""
        text = self._templates.get_template(template).render(fields)
        return WholeAnswer(body=text.encode(), status=status, headers=HEADERS)


def _shown(value: Any) -> Any:
    """The output of an expression: unseen characters made visible, markup as it is."""
    if value is None:
        return ""
    return seen(value) if isinstance(value, str) and not isinstance(value, Markup) else value


StateOf: TypeAlias = Callable[[], Awaitable[models.ServerState]]


class Framing:
    """Puts views into the frame that all pages have."""

    def __init__(
        self, rendering: Rendering, changes: PageChanges, pages: Sequence[models.ConsolePage], state: StateOf
    ) -> None:
        self.rendering, self.changes = rendering, changes
        self._pages, self._state = pages, state

    def begin(
        self, request: web.Request, session: models.ConsoleSession, page: models.ConsolePage
    ) -> dict[str, Any]:
        """The fields of every page that are known before it is read."""
        return {
            "page": page,
            "host": host_of(request),
            "here": str(request.rel_url.without_query_params(NOTICE)),
            "form_token": session.form_token,
            "since": self.changes.number,
        }

    async def finish(
        self,
        frame: dict[str, Any],
        view: models.View,
        notice: models.Done | None = None,
        error: BridgeError | None = None,
        sent: Mapping[str, str] | None = None,
    ) -> web.Response:
        """The page: the view in a frame that was begun. `sent` are the fields of a form that stay filled."""
        error = error or view.error
        entries = [(page, None if page.count is None else await page.count()) for page in self._pages]
        groups: tuple[models.NavigationGroup, ...] = get_args(models.NavigationGroup)
        parts = [(group, [entry for entry in entries if entry[0].group == group]) for group in groups]
        fields = {
            **frame,
            **view.fields,
            "live": ",".join(view.live),
            "navigation": [(group, entries) for group, entries in parts if entries],
            "state": await self._state(),
            "notice": notice,
            "error": error,
            "faults": faults_of(error),
            "sent": sent or {},
        }
        return self.rendering.page(view.template, fields, 200 if error is None else status_of(error))


def faults_of(error: BridgeError | None) -> list[tuple[str, str]]:
    """The places of an input's faults, as its form names them, with their descriptions."""
    if not isinstance(error, InvalidInputError):
        return []
    return [(fault.pointer.rpartition("/")[2].replace("_", " "), fault.detail) for fault in error.faults]


STATIC_FOLDER = Path(__file__).parent / "static"

MOST_LISTED = 100  # the most projects in the list; when there are more, the page asks for an id


class ProjectChoice:
    """Reads the query parameter `project_id`. Without it, the oldest project is shown."""

    def __init__(self, services: ProjectServices) -> None:
        self._projects, self._account_limit = services.projects, services.account_limit

    async def fields(self, asked: models.Asked) -> dict[str, Any]:
        """The oldest projects, and the chosen one as `project` or None. Raises ProjectNotFoundError."""
        found = await self._projects.overview(limit=MOST_LISTED + 1)
        page = projects.project_page_fields(found, MOST_LISTED, self._account_limit)
        listed = page["projects"]
        chosen = asked.names.get("project_id") or asked.query.get("project_id")
        if not chosen and listed:
            chosen = listed[0]["project_id"]
        project = None
        if chosen:
            project = projects.details_fields(await self._projects.show(chosen), self._account_limit)
        return {"projects": listed, "project": project, "has_more_projects": page["next"] is not None}


def chosen_process(asked: models.Asked) -> int | None:
    """The number of the process in the query; None: the process that answers."""
    text = asked.query.get("process", "")
    return int(text) if _NUMBER.fullmatch(text) else None
