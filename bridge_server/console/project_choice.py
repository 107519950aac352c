"""The choice of a project on pages that show one project."""

from collections.abc import Mapping
from typing import Any

from bridge_server.admin.projects import wire
from bridge_server.console.models import Asked
from bridge_server.kernel.token_bucket import Limit
from bridge_server.projects.projects import Projects

MOST_LISTED = 100
"""The most projects in the list. When there are more, the page asks for an id."""


class ProjectChoice:
    """Reads the query parameter `project_id`. Without it, the oldest project is shown."""

    def __init__(self, projects: Projects, account_limit: Limit) -> None:
        self._projects = projects
        self._account_limit = account_limit

    async def fields(self, asked: Asked) -> dict[str, Any]:
        """The oldest projects for the list, and the chosen one as `project`, None if there is none.

        Raises ProjectNotFoundError.
        """
        found = await self._projects.overview(limit=MOST_LISTED + 1)
        page = wire.project_page_fields(found, MOST_LISTED, self._account_limit)
        listed = page["projects"]
        chosen = asked.names.get("project_id") or asked.query.get("project_id")
        if not chosen and listed:
            chosen = listed[0]["project_id"]
        project = await self._details(chosen) if chosen else None
        return {"projects": listed, "project": project, "has_more_projects": page["next"] is not None}

    async def _details(self, project_id: str) -> Mapping[str, Any]:
        return wire.details_fields(await self._projects.show(project_id), self._account_limit)
