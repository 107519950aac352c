"""The list of rooms: opened in its order, closed in reverse, and stopped before anything closes.

White-box: rooms that note the order of their ends are not among those of the product.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from bridge_server.assembly import application
from bridge_server.assembly.application import house
from bridge_server.assembly.room import Room
from bridge_server.web.routes import Route
from tests.support.server import running_server


def room(lines: list[str], name: str, *, fails: bool = False) -> Room:
    """A room that writes down when it is opened, stopped and closed."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=name)

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        if fails:
            raise OSError(f"{name} cannot open")
        lines.append(f"{name} opens")
        try:
            yield
        finally:
            lines.append(f"{name} closes")

    route = Route(method="GET", path=f"/{name}", name=name, handler=answer)
    return Room(name=name, routes=(route,), running=(running,), stop=lambda: lines.append(f"{name} stops"))


def add_rooms(monkeypatch: pytest.MonkeyPatch, *rooms: Room) -> None:
    """Have servers made with further rooms at the end of the list."""
    monkeypatch.setattr(application, "house", lambda foundation: (*house(foundation), *rooms))


async def test_rooms_are_served_and_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    add_rooms(monkeypatch, room(lines, "first"), room(lines, "second"))

    async with (
        running_server(tmp_path / "data") as server,
        server.client.get(f"{server.url}/second") as response,
    ):
        assert await response.text() == "second"
        assert lines == ["first opens", "second opens"]

    assert lines[2:] == ["first stops", "second stops", "second closes", "first closes"]


async def test_rooms_are_closed_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    with monkeypatch.context() as patch:
        add_rooms(patch, room(lines, "first"), room(lines, "second", fails=True), room(lines, "third"))
        with pytest.raises(OSError, match="second cannot open"):
            async with running_server(tmp_path / "data"):
                pass

    assert [line for line in lines if "stops" not in line] == ["first opens", "first closes"]
    async with running_server(tmp_path / "data"):  # nothing holds the data directory any more
        pass
