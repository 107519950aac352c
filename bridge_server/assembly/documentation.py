"""The pages at `/docs/`."""

from collections.abc import Callable, Mapping
from typing import Any

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.documentation.handlers import DocumentationHandlers
from bridge_server.documentation.routes import documentation_routes


def documentation_room(foundation: Foundation, describe: Callable[[], Mapping[str, Any]]) -> Room:
    """The pages. `describe` makes the OpenAPI document of the server."""
    handlers = DocumentationHandlers(describe)
    return Room(name="documentation", routes=documentation_routes(handlers, foundation.every_request))
