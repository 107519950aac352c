"""Groups of commands: each is told in a whole sentence, and its module is loaded when it is called."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

_WHOLE = 1_000
"""More characters than any sentence has that tells what a command does."""


class Group(click.Group):
    """A group whose help has the whole first sentence of each command's own."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in lines as wide as the terminal, as many as it takes."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(_WHOLE)) for name, command in commands if command]
            )


class LazyGroup(Group):
    """A group whose commands are found, by name, as attributes of modules: `module:attribute`."""

    def __init__(self, *arguments: Any, places: Mapping[str, str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, in order."""
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, with its module; None when there is no such."""
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module, attribute = place.split(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command
