"""`bridge-server openapi`."""

import click
import orjson

from bridge_server.assembly.every_route import every_route
from bridge_server.description.document import openapi_document


@click.command("openapi")
def openapi_command() -> None:
    """Print the description of every route that a server can have, as an OpenAPI document.

    It needs no server and no settings. A running server answers GET /openapi.json with the routes that its
    settings turn on.
    """
    click.echo(orjson.dumps(openapi_document(every_route()), option=orjson.OPT_INDENT_2))
