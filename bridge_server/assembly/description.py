"""`/openapi.json`: the description of every route that this server has."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from bridge_server.assembly.documentation import documentation_room
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.web.document import DocumentPage
from bridge_server.web.routes import Route


def description_rooms(foundation: Foundation, rooms: Sequence[Room]) -> tuple[Room, Room]:
    """The document of these rooms and of itself, which any web page may read; and the pages at `/docs/`."""
    rows: list[Route] = []
    describe = partial(_document, rows)
    page = DocumentPage(describe)
    route = Route(
        method="GET", path="/openapi.json", name="openapi", handler=page.answer,
        limits=(foundation.every_request,), any_origin=True,
    )  # fmt: skip
    rows += (row for room in rooms if not room.has_own_port for row in room.routes)
    rows.append(route)
    return Room(name="description", routes=(route,)), documentation_room(foundation, describe)


def _document(rows: Sequence[Route]) -> Mapping[str, Any]:
    # Its modules are loaded when somebody asks: most servers are never asked.
    document: Mapping[str, Any] = import_module("bridge_server.description.document").openapi_document(rows)
    return document
