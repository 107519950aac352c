"""The handlers around every page: the door, the page's view or change, and the answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import parse_qsl

from aiohttp import hdrs, web

from bridge_server.console.access import REFUSED_ATTEMPTS, Door
from bridge_server.console.models import ROOT, Asked, ConsolePage, ConsoleSession, PagePath, PageStream, View
from bridge_server.console.rendering import HEADERS, NOTICE, Framing, OneTimeNotices, faults_of
from bridge_server.kernel.background import cancelled
from bridge_server.kernel.errors import BridgeError, InvalidInputError, NotFoundError, UnsupportedMediaError
from bridge_server.kernel.token_bucket import Limit
from bridge_server.web.addresses import host_of
from bridge_server.web.answers import EventStream, Source, StaticFiles, WholeAnswer
from bridge_server.web.problems import status_of
from bridge_server.web.routes import Handler, Route

BODY_LIMIT_BYTES = 256 * 1024
_MOST_FIELDS = 100
_FORM = "application/x-www-form-urlencoded"


async def read_form(request: web.Request) -> Mapping[str, str]:
    """The last field of each name. Raises UnsupportedMediaError, InvalidInputError."""
    if request.content_type != _FORM:
        raise UnsupportedMediaError("The console takes forms, as its own pages send them.")
    try:
        text = (await request.read()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise InvalidInputError("The form cannot be read.") from error


class SignedInSource:
    """The events of another source, until the session of the browser has ended."""

    def __init__(self, source: Source, end_of_session: Callable[[], Awaitable[None]]) -> None:
        self._source, self._end_of_session = source, end_of_session

    async def flow(self, outlet: EventStream) -> None:
        """Let the events flow until there are no more, or the session has ended."""
        tasks = [
            asyncio.ensure_future(self._source.flow(outlet)),
            asyncio.ensure_future(self._end_of_session()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            await cancelled(tasks)

    def leave(self) -> None:
        """Release the source: the stream is over, or never began."""
        self._source.leave()


_Work: TypeAlias = Callable[[web.Request, ConsoleSession], Awaitable[web.StreamResponse]]


class ConsoleHandlers:
    """Makes the handlers of pages, and answers the paths that belong to none of them."""

    def __init__(self, door: Door, framing: Framing, notices: OneTimeNotices, home: str) -> None:
        """`home` is the path of the first page."""
        self._door, self._framing = door, framing
        self._notices, self._home = notices, home

    def showing(self, page: ConsolePage, path: PagePath) -> Handler:
        """The handler that shows a path of a page."""

        async def show(request: web.Request, session: ConsoleSession) -> web.StreamResponse:
            # Before the page reads: no later change is missed.
            frame = self._framing.begin(request, session, page)
            view = await path.show(_asked(request))
            name = request.query.get(NOTICE) if request.method == hdrs.METH_GET else None
            notice = self._notices.take(session, name) if name else None
            return await self._framing.finish(frame, view, notice)

        return self.signed_in(show)

    def changing(self, page: ConsolePage, path: PagePath) -> Handler:
        """The handler that makes the change which a form of the path names, and then shows the page."""

        async def change(request: web.Request, session: ConsoleSession) -> web.StreamResponse:
            form = await read_form(request)
            self._door.require_own_form(request, session, form)
            frame = self._framing.begin(request, session, page)
            asked = _asked(request, form)
            try:
                make = path.changes.get(form.get("do", ""))
                if make is None:
                    raise InvalidInputError(
                        "The page has no such change. Open the page again, and repeat it."
                    )
                outcome = await make(asked)
            except BridgeError as error:
                return await self._framing.finish(frame, await path.show(asked), error=error, sent=form)
            if isinstance(outcome, View):
                return await self._framing.finish(frame, outcome, sent=form)
            # The page is shown by GET, so that loading it again changes nothing.
            notice = self._notices.keep(session, outcome)
            return _see_other(f"{outcome.to}{'&' if '?' in outcome.to else '?'}{NOTICE}={notice}")

        return self.signed_in(change)

    def streaming(self, stream: PageStream) -> Handler:
        """The handler of a page's stream of events."""

        async def begin(request: web.Request, session: ConsoleSession) -> web.StreamResponse:
            return self._events(stream.opened(_asked(request)), session)

        return self.signed_in(begin)

    async def home(self, _: web.Request, __: ConsoleSession) -> web.StreamResponse:
        """The first page."""
        return _see_other(self._home)

    async def sign_in(self, request: web.Request) -> web.StreamResponse:
        """Use a link up, and have the browser keep its session."""
        if request.method == hdrs.METH_HEAD:  # a program that only tests the link must not use it up
            return WholeAnswer(headers=HEADERS)
        try:
            self._door.require_own_window(request)
            token = await self._door.access.sign_in(request.query.get("link", ""))
        except BridgeError as error:
            return self._refused(request, error)
        if request.headers.get("Sec-Fetch-Site") == "cross-site":
            # The page goes there by itself: a redirect from a link in a page of another site would carry no
            # cookie that is SameSite=Strict.
            response = self._framing.rendering.page("layout/signed_in.html", {})
        else:
            response = _see_other(ROOT)
        response.headers[hdrs.SET_COOKIE] = self._door.cookies.keep(request, token)
        return response

    async def sign_out(self, request: web.Request, session: ConsoleSession) -> web.StreamResponse:
        """End the session of this browser."""
        self._door.require_own_form(request, session, await read_form(request))
        await self._door.access.store.sign_out(session.digest)
        response = self._framing.rendering.page("layout/signed_out.html", {})
        response.headers[hdrs.SET_COOKIE] = self._door.cookies.forget(request)
        return response

    async def events(self, request: web.Request, session: ConsoleSession) -> web.StreamResponse:
        """The stream of changes of the topics in `on`."""
        topics = request.query.get("on", "").split(",")
        since = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        number = int(since) if since.isascii() and since.isdigit() and len(since) < 19 else 0
        return self._events(self._framing.changes.watch(topics, number), session)

    async def nothing(self, _: web.Request, __: ConsoleSession) -> web.StreamResponse:
        """A path that no page has."""
        raise NotFoundError("The console has no such page: choose one from its navigation.")

    def signed_in(self, work: _Work) -> Handler:
        """The handler that does this work for a browser that is signed in, and refuses others."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                self._door.require_own_window(request)
                session = await self._door.session(request)
            except BridgeError as error:
                return self._refused(request, error)
            try:
                return await work(request, session)
            except BridgeError as error:
                # The failure in the frame of every page; without it if that cannot be made either.
                if not isinstance(error, REFUSED_ATTEMPTS):
                    page = ConsolePage("", error.title, "Server", ())
                    with suppress(BridgeError):
                        frame = self._framing.begin(request, session, page)
                        return await self._framing.finish(frame, View("layout/missing.html", {}), error=error)
                return self._refused(request, error)

        return handle

    def _events(self, source: Source, session: ConsoleSession) -> EventStream:
        return EventStream(SignedInSource(source, partial(self._door.ends.of, session)))

    def _refused(self, request: web.Request, error: BridgeError) -> web.Response:
        """A page that says what to do; an attempt that the door refused is logged."""
        if isinstance(error, REFUSED_ATTEMPTS):
            self._door.note_refusal(request, error)
        fields = {"error": error, "faults": faults_of(error), "here": request.path}
        return self._framing.rendering.page("layout/refused.html", fields, status_of(error))


def _asked(request: web.Request, form: Mapping[str, str] | None = None) -> Asked:
    return Asked(request.match_info, request.query, form or {}, host_of(request))


def _see_other(place: str) -> web.Response:
    response = WholeAnswer(status=HTTPStatus.SEE_OTHER, headers=HEADERS)
    response.headers[hdrs.LOCATION] = place
    return response


def console_routes(
    handlers: ConsoleHandlers, static_files: StaticFiles, pages: Sequence[ConsolePage], every_request: Limit
) -> tuple[Route, ...]:
    """Every route of the console."""

    def row(method: str, path: str, name: str, handler: Handler, *, waits: bool = False) -> Route:
        return Route(
            method=method, path=f"{ROOT}{path}", name=f"console-{name}", handler=handler, waits=waits,
            body_limit_bytes=BODY_LIMIT_BYTES if method == "POST" else 0, limits=(every_request,),
            who="console",
        )  # fmt: skip

    def rows_of(page: ConsolePage) -> Iterator[Route]:
        for number, path in enumerate(page.paths, 1):
            name = page.name if number == 1 else f"{page.name}-{number}"
            yield row("GET", path.path, name, handlers.showing(page, path))
            if path.changes:
                yield row("POST", path.path, f"change-{name}", handlers.changing(page, path))
        for number, stream in enumerate(page.streams, 1):
            name = f"{page.name}-stream-{number}"
            yield row("GET", stream.path, name, handlers.streaming(stream), waits=True)

    return (
        row("GET", "", "home", handlers.signed_in(handlers.home)),
        row("GET", "/sign-in", "sign-in", handlers.sign_in),
        row("POST", "/sign-out", "sign-out", handlers.signed_in(handlers.sign_out)),
        row("GET", "/events", "events", handlers.signed_in(handlers.events), waits=True),
        row("GET", "/static/{name}", "static", static_files.answer),
        *(row for page in pages for row in rows_of(page)),
        row("GET", "/{anything:.*}", "nothing", handlers.signed_in(handlers.nothing)),
    )
