"""The console's routes: two for each path of a page, one for each stream, and the door's."""

from collections.abc import Iterator, Sequence

from bridge_server.console.handlers import ConsoleHandlers
from bridge_server.console.models import ROOT, ConsolePage
from bridge_server.kernel.token_bucket import Limit
from bridge_server.web.routes import Handler, Route
from bridge_server.web.static_files import StaticFiles

BODY_LIMIT_BYTES = 256 * 1024


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
        row("GET", "", "home", handlers.home),
        row("GET", "/sign-in", "sign-in", handlers.sign_in),
        row("POST", "/sign-out", "sign-out", handlers.sign_out),
        row("GET", "/events", "events", handlers.events, waits=True),
        row("GET", "/static/{name}", "static", static_files.answer),
        *(row for page in pages for row in rows_of(page)),
        row("GET", "/{anything:.*}", "nothing", handlers.nothing),
    )
