"""The turns of transactions on projects, and on their notifications."""

from bridge_server.projects.models import ProjectId
from bridge_server.storage.database import Turn, Turns

SENDINGS = Turn("sendings")
"""Numbers of sendings are given and committed in one order: a reader that goes on after one misses none."""

FIGURES = Turn("figures")
"""Figures of notifications are right together: what was sent is read, marked, lapsed or unread.

Whatever marks or deletes has it alone, or two of these could each wait for a row that the other has counted
in. Whatever sends shares it, and has the turn of sendings.
"""


def turn_of_project(project_id: ProjectId) -> Turn:
    """The project with its types, secrets, subscriptions and buckets."""
    return Turn("project", project_id)


def of_project(project_id: ProjectId, *_: object, **__: object) -> Turns:
    """The turns of a transaction on one project, which is its first argument."""
    return Turns((turn_of_project(project_id),))
