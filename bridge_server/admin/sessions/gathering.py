"""Sessions as all processes on a database have seen them: each knows of the requests that came to it."""

from urllib.parse import quote

from bridge_server.admin.neighbours import Fields, Neighbours, Question, of_all
from bridge_server.admin.sessions import wire
from bridge_server.admin.sessions.service import SessionViews

_SESSIONS = "/admin/sessions"


class SessionsEverywhere:
    """What all processes together know of sessions, or one of them. Without `neighbours` there is but one."""

    def __init__(self, views: SessionViews, neighbours: Neighbours | None) -> None:
        self._views = views
        self.neighbours = neighbours

    async def page(self, after: str, limit: int, process: str | int | None = None) -> Fields:
        """A page of living sessions, newest first. Raises InvalidInputError."""
        before = wire.read_after(after)

        async def own() -> Fields:
            return wire.page_fields(*await self._views.page(before, limit), self._views.handles)

        question = Question(_SESSIONS, {"after": after, "limit": str(limit)})
        return await of_all(self.neighbours, process, question, own, wire.merged_page)

    async def story(self, handle: str, process: str | int | None = None) -> Fields:
        """One session. Raises SessionNotFoundError."""

        async def own() -> Fields:
            story = await self._views.story(handle)
            return wire.story_fields(story, self._views.traffic, self._views.handles)

        question = Question(f"{_SESSIONS}/{quote(handle, safe='')}")
        return await of_all(self.neighbours, process, question, own, wire.merged_story)

    async def count(self) -> int:
        """How many sessions live; the number may be a minute old."""
        return await self._views.count()

    async def end(self, handle: str) -> None:
        """End a session and its calls. Raises SessionNotFoundError."""
        await self._views.end(handle)
