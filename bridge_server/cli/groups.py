"""Groups of commands whose help shows whole sentences, and whose modules are imported on demand."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from bridge_server.kernel.garbage import garbage_left_alone

_UNLIMITED = 1_000
"""Characters: longer than the first sentence of any command's help."""


class Group(click.Group):
    """A group whose help shows the whole first sentence of each command's help."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands and their first sentences, wrapped at the width of the terminal."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(_UNLIMITED)) for name, command in commands if command]
            )


class LazyGroup(Group):
    """A group whose commands are found, by name, as attributes of modules: `module:attribute`."""

    def __init__(self, *arguments: Any, places: Mapping[str, str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands in alphabetical order."""
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of this name; None if there is none."""
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module, attribute = place.split(":")
        with garbage_left_alone():
            command: click.Command = getattr(import_module(module), attribute)
        return command
