"""The list of rooms: opened in its order, closed in reverse, and stopped before anything closes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from bridge_server.assembly import application
from bridge_server.assembly.application import house
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room, Running
from bridge_server.web.routes import Route
from tests.support.server import running_server


class Log:
    """Rooms that write down when they are opened, stopped and closed."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def room(self, name: str, *, fails: bool = False) -> Room:
        def stop() -> None:
            self.lines.append(f"{name} stops")

        async def answer(_: web.Request) -> web.StreamResponse:
            return web.Response(text=name)

        route = Route(method="GET", path=f"/{name}", name=name, handler=answer)
        return Room(name=name, routes=(route,), running=(self._running(name, fails),), stop=stop)

    def _running(self, name: str, fails: bool) -> Running:
        @asynccontextmanager
        async def running() -> AsyncIterator[None]:
            if fails:
                raise OSError(f"{name} cannot open")
            self.lines.append(f"{name} opens")
            try:
                yield
            finally:
                self.lines.append(f"{name} closes")

        return running


@pytest.fixture
def log() -> Log:
    return Log()


def add_rooms(monkeypatch: pytest.MonkeyPatch, *rooms: Room) -> None:
    """Have servers made with further rooms at the end of the list."""

    def longer(foundation: Foundation) -> tuple[Room, ...]:
        return (*house(foundation), *rooms)

    monkeypatch.setattr(application, "house", longer)


async def test_a_room_that_is_added_to_the_list_is_served_opened_stopped_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    add_rooms(monkeypatch, log.room("first"), log.room("second"))

    async with (
        running_server(tmp_path / "data") as server,
        server.client.get(f"{server.url}/second") as response,
    ):
        assert await response.text() == "second"
        assert log.lines == ["first opens", "second opens"]

    assert log.lines[2:] == ["first stops", "second stops", "second closes", "first closes"]


async def test_rooms_that_are_open_are_closed_when_a_later_room_cannot_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    rooms = (log.room("first"), log.room("second", fails=True), log.room("third"))

    with monkeypatch.context() as patch:
        add_rooms(patch, *rooms)
        with pytest.raises(OSError, match="second cannot open"):
            async with running_server(tmp_path / "data"):
                pass

    assert [line for line in log.lines if "stops" not in line] == ["first opens", "first closes"]
    async with running_server(tmp_path / "data"):  # nothing holds the data directory any more
        pass
