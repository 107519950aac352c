"""The project that `bridge-server dev` has from the start, with a secret that the command prints."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from bridge_server.assembly.room import Room
from bridge_server.projects.projects import Projects


@dataclass(frozen=True, slots=True)
class DemoProject:
    """A project that is there whenever the server answers. `types` are names by their ids."""

    project_id: str
    name: str
    secret: str
    types: Mapping[str, str]


def demo_room(projects: Projects, demo: DemoProject | None) -> Room:
    """The project is made before the server answers, and again when test mode has emptied the database."""
    if demo is None:
        return Room(name="demo")
    ensure = partial(projects.ensure, demo.project_id, demo.name, demo.secret, demo.types)

    @asynccontextmanager
    async def before() -> AsyncIterator[None]:
        await ensure()
        yield

    @asynccontextmanager
    async def after_reset() -> AsyncIterator[None]:
        yield
        await ensure()

    return Room(name="demo", running=(before,), emptied=(after_reset,))
