"""The page of sessions. Each is called by its handle, because its id would let a reader take part."""

from typing import Any
from urllib.parse import quote

import segno

from bridge_server.admin.sessions import SessionAdmin, TopicAdmin
from bridge_server.console.models import ROOT, Asked, ConsolePage, Done, PagePath, View
from bridge_server.console.traffic import row_fields
from bridge_server.kernel.errors import InvalidInputError

_MOST_CHARACTERS = 2_000


def qr_image(text: str) -> str:
    """The URL of an image (SVG) with the text as a QR code. Raises InvalidInputError."""
    if not 1 <= len(text) <= _MOST_CHARACTERS:
        raise InvalidInputError(f"A pairing URI has 1 to {_MOST_CHARACTERS} characters.")
    made = segno.make(text, micro=False, error="l")
    return made.svg_data_uri(scale=5, border=4, dark="#000", light="#fff")


_SESSIONS = "/sessions"
_LIVE = ("observed",)
_PAGE = 25
_PAIRINGS = ("wc:", "ethereum:wc-")


class SessionsPage:
    """Views and changes of sessions; topics of generation 2.x are listed below them."""

    def __init__(self, sessions: SessionAdmin, topics: TopicAdmin) -> None:
        self._sessions, self._topics = sessions, topics
        one = PagePath(f"{_SESSIONS}/{{handle:[^/]{{1,128}}}}", self.show, {"end": self.end, "qr": self.draw})
        paths = (PagePath(_SESSIONS, self.show_all), one)
        self.page = ConsolePage("sessions", "Sessions", "Live", paths, self._sessions.count)

    async def show_all(self, asked: Asked) -> View:
        """Living sessions, newest first, and topics of generation 2.x, renewed last first."""
        topics_after = asked.query.get("topics_after", "")
        topics = await self._topics.page(topics_after, _PAGE)
        fields = {"topics": topics["topics"], "next_topics": topics["next"], "topics_after": topics_after}
        return View("sessions/sessions.html", {**await self._list(asked), **fields}, _LIVE)

    async def show(self, asked: Asked) -> View:
        """One session with what happened in it."""
        session = await self._sessions.story(asked.names["handle"])
        fields = {"session": session, "rows": [row_fields(each) for each in session["requests"]]}
        return View("sessions/sessions.html", {**await self._list(asked), **fields}, _LIVE)

    async def end(self, asked: Asked) -> Done:
        await self._sessions.end(asked.names["handle"])
        return Done(f"{ROOT}{_SESSIONS}", "The session is ended, with its calls.")

    async def draw(self, asked: Asked) -> Done:
        """The QR code of a pairing URI, which is kept until the page has shown it, and no longer."""
        uri = asked.form.get("uri", "").strip()
        if not uri.startswith(_PAIRINGS):
            raise InvalidInputError("A pairing URI begins with wc: or with ethereum:wc- (ERC-1328).")
        to = f"{ROOT}{_SESSIONS}/{quote(asked.names['handle'], safe='')}"
        picture_of = "QR code of the pairing URI"
        return Done(to, "Scan it with a wallet.", picture=qr_image(uri), picture_of=picture_of)

    async def _list(self, asked: Asked) -> dict[str, Any]:
        after = asked.query.get("after", "")
        page = await self._sessions.page(after, _PAGE)
        return {**page, "after": after, "processes": page.get("processes", ())}
