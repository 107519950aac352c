"""`bridge-server project type ...`."""

import click

from bridge_server.admin.projects import wire
from bridge_server.cli.groups import Group
from bridge_server.cli.operator import Operator, columns, for_operator, table
from bridge_server.kernel.instants import rfc3339

_project_argument = click.argument("project_id", metavar="PROJECT")
_type_argument = click.argument("type_id", metavar="TYPE")

_NO_TYPES = "this project has no notification types: `project type add` makes one"


@click.group("type", cls=Group)
def type_group() -> None:
    """Manage the notification types of a project, which accounts subscribe to."""


@type_group.command("add")
@_project_argument
@click.argument("name")
@click.option("--id", "type_id", help="The type's id: letters, digits and . _ -  [default: made from NAME]")
@for_operator
def add_command(operator: Operator, project_id: str, name: str, type_id: str | None) -> None:
    """Add a type called NAME. At first only accounts that subscribe to all types receive it."""
    added = operator.run(lambda opened: opened.projects.add_type(project_id, name, type_id))
    operator.show(wire.type_fields(added), columns([("type", added.type_id), ("name", added.name)]))


@type_group.command("rename")
@_project_argument
@_type_argument
@click.argument("name")
@for_operator
def rename_command(operator: Operator, project_id: str, type_id: str, name: str) -> None:
    """Change the displayed name of a type. Its id stays."""
    renamed = operator.run(lambda opened: opened.projects.rename_type(project_id, type_id, name))
    operator.show(wire.type_fields(renamed), columns([("type", renamed.type_id), ("name", renamed.name)]))


@type_group.command("remove")
@_project_argument
@_type_argument
@for_operator
def remove_command(operator: Operator, project_id: str, type_id: str) -> None:
    """Remove a type, also from every subscription. Its past notifications stay in the analytics."""
    operator.run(lambda opened: opened.projects.remove_type(project_id, type_id))
    operator.show({"success": True}, [f"type {type_id} is removed"])


@type_group.command("list")
@_project_argument
@for_operator
def list_command(operator: Operator, project_id: str) -> None:
    """Print the types of a project."""
    types = operator.run(lambda opened: opened.projects.types(project_id))
    rows = [(kind.type_id, kind.name, rfc3339(kind.created_at_ms)) for kind in types]
    operator.show(wire.type_list_fields(types), table(("type", "name", "created"), rows, _NO_TYPES))
