"""The base of the commands that work on the database, with or without a running server."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click

from bridge_server.assembly.command_line import CommandServices, operations
from bridge_server.cli import options
from bridge_server.cli.options import CommandError, command_errors, loaded_settings
from bridge_server.cli.output import json_option, print_result
from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.token_bucket import Limit
from bridge_server.kernel.values import dataclass
from bridge_server.projects.models import ProjectNotFoundError
from bridge_server.projects.service import account_limit
from bridge_server.settings.settings import Settings
from bridge_server.storage.data_directory import DataDirectoryError, require_own
from bridge_server.storage.database import DatabaseRefusedError
from bridge_server.storage.migrate import NewerSchemaError

_MOST_NAMED = 20

Result = TypeVar("Result")
Decorator: TypeAlias = Callable[[Callable[..., None]], click.Command]


@dataclass(frozen=True, slots=True)
class DatabaseCommand:
    """The settings of a command on the database, which name that, and the format of its output."""

    settings: Settings
    as_json: bool

    def run(self, work: Callable[[CommandServices], Awaitable[Result]], may_create: bool = False) -> Result:
        """Run `work` on the database; `may_create` allows to create it. Raises CommandError with one line."""
        refused = (BridgeError, DataDirectoryError, DatabaseRefusedError, NewerSchemaError)
        unusable = f"the database {self.settings.database_name} cannot be used: "

        async def on_database() -> Result:
            async with operations(self.settings, may_create=may_create) as opened:
                try:
                    return await work(opened)
                except ProjectNotFoundError as error:
                    raise CommandError(await _projects_there(opened)) from error

        try:
            with command_errors(*refused), command_errors(sqlite3.Error, about=unusable):
                return asyncio.run(on_database())
        except UnicodeEncodeError as error:
            raise CommandError("an argument is not text in UTF-8") from error

    @property
    def servers_limit(self) -> Limit:
        """The rate limit per account, from the settings, of projects without their own limit."""
        return account_limit(self.settings.account_rate_per_hour, self.settings.account_burst)

    def show(self, fields: Mapping[str, Any], lines: Iterable[str]) -> None:
        """Print the fields as JSON if `--json` was given, otherwise the lines."""
        print_result(fields, lines, as_json=self.as_json)


async def _projects_there(opened: CommandServices) -> str:
    known = [each.project.project_id for each in await opened.projects.overview(limit=_MOST_NAMED + 1)]
    if not known:
        return "there is no project of this id, nor any other: `project create NAME` makes one"
    more = " and others" if len(known) > _MOST_NAMED else ""
    return f"there is no project of this id, but {', '.join(known[:_MOST_NAMED])}{more}"


def database_command(make: Decorator) -> Decorator:
    """Make a command by click's decorator `make` with --config, --data-dir, --json: a DatabaseCommand."""

    def made(work: Callable[..., None]) -> click.Command:
        @wraps(work)
        def run(config_file: Path | None, data_dir: Path | None, as_json: bool, **others: Any) -> None:
            settings = loaded_settings(config_file, data_dir=data_dir).settings
            with command_errors(DataDirectoryError):
                require_own(settings.data_dir)
            work(DatabaseCommand(settings, as_json), **others)

        return json_option(options.data_dir_option(options.config_option(make(run))))

    return made


def refuse_postgresql(command: DatabaseCommand, name: str, instead: str) -> None:
    """Refuse a command that copies the file of an SQLite database. Raises CommandError."""
    if command.settings.database is not None:
        raise CommandError(
            f"{name} is for a database in data_dir, and this one is PostgreSQL's: use its own programs, "
            f"as in {instead}; key files and audit logs in data_dir are copied as files"
        )
