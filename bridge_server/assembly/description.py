"""`/openapi.json`: the description of every route that this server has."""

from collections.abc import Sequence
from functools import partial
from importlib import import_module

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.web.document import DocumentPage
from bridge_server.web.routes import Route


def description_room(foundation: Foundation, rooms: Sequence[Room]) -> Room:
    """The document of these rooms and of itself, which any web page may read."""
    rows: list[Route] = []
    page = DocumentPage(partial(_document, rows))
    route = Route(
        method="GET", path="/openapi.json", name="openapi", handler=page.answer,
        limits=(foundation.every_request,), any_origin=True,
    )  # fmt: skip
    rows += (row for room in rooms if not room.has_own_port for row in room.routes)
    rows.append(route)
    return Room(name="description", routes=(route,))


def _document(rows: Sequence[Route]) -> object:
    # Its modules are loaded when somebody asks: most servers are never asked.
    return import_module("bridge_server.description.document").openapi_document(rows)
