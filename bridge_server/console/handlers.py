"""The handlers around every page: the door, the page's view or change, and the answer."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, TypeAlias

from aiohttp import hdrs, web

from bridge_server.console.access import ConsoleAccess
from bridge_server.console.changes import PageChanges
from bridge_server.console.cookies import SessionCookies
from bridge_server.console.door import Door
from bridge_server.console.errors import REFUSED_ATTEMPTS, UnknownChangeError
from bridge_server.console.forms import read_form
from bridge_server.console.framing import Framing, faults_of
from bridge_server.console.models import (
    ROOT,
    Asked,
    ConsolePage,
    ConsoleSession,
    Done,
    PagePath,
    PageStream,
    View,
)
from bridge_server.console.notices import NOTICE, OneTimeNotices
from bridge_server.console.rendering import HEADERS, Rendering
from bridge_server.console.signed_in_source import SignedInSource
from bridge_server.kernel.errors import BridgeError, NotFoundError
from bridge_server.web.event_stream import EventStream
from bridge_server.web.hosts import host_of
from bridge_server.web.problems import status_of
from bridge_server.web.routes import Handler
from bridge_server.web.whole_answer import WholeAnswer

_Work: TypeAlias = Callable[[web.Request, ConsoleSession], Awaitable[web.StreamResponse]]


class ConsoleHandlers:
    """Makes the handlers of pages, and answers the paths that belong to none of them."""

    def __init__(
        self,
        access: ConsoleAccess,
        cookies: SessionCookies,
        door: Door,
        rendering: Rendering,
        notices: OneTimeNotices,
        changes: PageChanges,
        framing: Framing,
        home: str,
    ) -> None:
        """`home` is the path of the first page."""
        self._access = access
        self._cookies = cookies
        self._door = door
        self._rendering = rendering
        self._notices = notices
        self._changes = changes
        self._framing = framing
        self._home = home

    def showing(self, page: ConsolePage, path: PagePath) -> Handler:
        """The handler that shows a path of a page."""

        async def show(request: web.Request, session: ConsoleSession) -> web.StreamResponse:
            # Before the page reads: no later change is missed.
            frame = self._framing.begin(request, session, page)
            view = await path.show(_asked(request))
            return await self._framing.finish(frame, view, self._notice(request, session))

        return self._for_signed_in(show)

    def changing(self, page: ConsolePage, path: PagePath) -> Handler:
        """The handler that makes the change which a form of the path names, and then shows the page."""

        async def change(request: web.Request, session: ConsoleSession) -> web.StreamResponse:
            form = await read_form(request)
            self._door.require_own_form(request, session, form)
            frame = self._framing.begin(request, session, page)
            asked = _asked(request, form)
            try:
                outcome = await _change(path, asked)
            except BridgeError as error:
                return await self._unchanged(frame, path, asked, error)
            if isinstance(outcome, View):
                return await self._framing.finish(frame, outcome, sent=form)
            return self._done(session, outcome)

        return self._for_signed_in(change)

    def streaming(self, stream: PageStream) -> Handler:
        """The handler of a page's stream of events."""

        async def begin(request: web.Request, session: ConsoleSession) -> web.StreamResponse:
            source = stream.opened(_asked(request))
            return EventStream(SignedInSource(source, partial(self._access.lasts, session)))

        return self._for_signed_in(begin)

    async def home(self, request: web.Request) -> web.StreamResponse:
        """The first page."""

        async def go(_: web.Request, __: ConsoleSession) -> web.StreamResponse:
            return _see_other(self._home)

        return await self._for_signed_in(go)(request)

    async def sign_in(self, request: web.Request) -> web.StreamResponse:
        """Use a link up, and have the browser keep its session."""
        if request.method == hdrs.METH_HEAD:  # a program that only looks at the link must not use it up
            return WholeAnswer(headers=HEADERS)
        try:
            self._door.require_own_window(request)
            token = await self._access.sign_in(request.query.get("link", ""))
        except BridgeError as error:
            return self._refused(request, error)
        response = self._to_first_page(request)
        response.headers[hdrs.SET_COOKIE] = self._cookies.keep(request, token)
        return response

    async def sign_out(self, request: web.Request) -> web.StreamResponse:
        """End the session of this browser."""

        async def leave(request: web.Request, session: ConsoleSession) -> web.StreamResponse:
            self._door.require_own_form(request, session, await read_form(request))
            await self._access.sign_out(session)
            response = self._rendering.page("layout/signed_out.html", {})
            response.headers[hdrs.SET_COOKIE] = self._cookies.forget(request)
            return response

        return await self._for_signed_in(leave)(request)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """The stream of changes of the topics in `on`."""

        async def stream(request: web.Request, session: ConsoleSession) -> web.StreamResponse:
            topics = request.query.get("on", "").split(",")
            since = request.headers.get("Last-Event-ID") or request.query.get("since", "")
            number = int(since) if since.isascii() and since.isdigit() and len(since) < 19 else 0
            return EventStream(self._changes.watch(topics, number, partial(self._access.lasts, session)))

        return await self._for_signed_in(stream)(request)

    async def nothing(self, request: web.Request) -> web.StreamResponse:
        """A path that no page has."""

        async def missing(request: web.Request, _: ConsoleSession) -> web.StreamResponse:
            raise NotFoundError("The console has no such page: choose one from its navigation.")

        return await self._for_signed_in(missing)(request)

    def _for_signed_in(self, work: _Work) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                self._door.require_own_window(request)
                return await work(request, await self._door.session(request))
            except BridgeError as error:
                return self._refused(request, error)

        return handle

    def _to_first_page(self, request: web.Request) -> web.Response:
        """A redirect; or a page that goes there by itself, for a link in a page of another site.

        A redirect from there would carry no cookie that is SameSite=Strict.
        """
        if request.headers.get("Sec-Fetch-Site") == "cross-site":
            return self._rendering.page("layout/signed_in.html", {})
        return _see_other(ROOT)

    def _refused(self, request: web.Request, error: BridgeError) -> web.Response:
        """A page that says what to do; an attempt that the door refused is logged."""
        if isinstance(error, REFUSED_ATTEMPTS):
            self._door.note_refusal(request, error)
        fields = {"error": error, "faults": faults_of(error), "here": request.path}
        return self._rendering.page("layout/refused.html", fields, status_of(error))

    def _notice(self, request: web.Request, session: ConsoleSession) -> Done | None:
        name = request.query.get(NOTICE)
        return self._notices.take(session, name) if name and request.method == hdrs.METH_GET else None

    def _done(self, session: ConsoleSession, done: Done) -> web.Response:
        """Go to the page by GET, so that loading it again changes nothing."""
        notice = self._notices.keep(session, done)
        return _see_other(f"{done.to}{'&' if '?' in done.to else '?'}{NOTICE}={notice}")

    async def _unchanged(
        self, frame: dict[str, Any], path: PagePath, asked: Asked, error: BridgeError
    ) -> web.Response:
        """The page as it was, with the failure, and with the fields as they were sent."""
        return await self._framing.finish(frame, await path.show(asked), error=error, sent=asked.form)


def _asked(request: web.Request, form: Mapping[str, str] | None = None) -> Asked:
    return Asked(request.match_info, request.query, form or {}, host_of(request))


async def _change(path: PagePath, asked: Asked) -> Done | View:
    change = path.changes.get(asked.form.get("do", ""))
    if change is None:
        raise UnknownChangeError
    return await change(asked)


def _see_other(place: str) -> web.Response:
    response = WholeAnswer(status=HTTPStatus.SEE_OTHER, headers=HEADERS)
    response.headers[hdrs.LOCATION] = place
    return response
