"""Routes that a listener does not have, because they answer at another address of the server only."""

from typing import NoReturn

from aiohttp import web

from bridge_server.kernel.errors import NotFoundError
from bridge_server.web.routes import Handler


class AnswersElsewhereError(NotFoundError):
    """The path is not answered at this port."""

    code = "answers-elsewhere"
    title = "Not at this address"

    def __init__(self, url: str) -> None:
        super().__init__(
            f"This address is for phones and answers for the bridge only. Everything else answers on the "
            f"server's own machine, at {url}."
        )


def elsewhere(url: str) -> Handler:
    """Answers every path that the listener does not have. `url` is the address of the others."""

    async def not_here(_: web.Request) -> NoReturn:
        raise AnswersElsewhereError(url)

    return not_here
