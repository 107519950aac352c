"""What a project sends to an account."""

from tests.support.inbox_client import InboxClient
from tests.support.project import App


async def send(app: App, reader: InboxClient, *titles: str) -> None:
    """Notify the account of each."""
    for title in titles:
        app.server.clock.advance(0.5)  # the project may call so often
        assert (await app.notify([reader.account], title=title)).json["sent"] == [reader.account]


def titles_from(first: int, last: int) -> list[str]:
    """Titles by number, in the order in which they are sent."""
    return [f"n{number}" for number in range(first, last + 1)]


def newest_first(first: int, last: int) -> list[str]:
    """The titles of notifications `first` to `last` in the order of a listing: newest first."""
    return titles_from(first, last)[::-1]


async def send_numbered(app: App, reader: InboxClient, first: int, last: int) -> list[str]:
    """Notify the account so often; returns the titles in order."""
    titles = titles_from(first, last)
    await send(app, reader, *titles)
    return titles
