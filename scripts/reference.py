"""Writes the parts of docs/reference.md that the program knows: routes, settings, problems, commands.

`scripts/reference` writes them; with `--check` it only compares, and prints what differs. A part is the text
below its heading, after the introduction, up to the next heading of the same level.
"""

import argparse
import difflib
import importlib
import pkgutil
import re
import sys
import tempfile
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click
from pydantic_core import PydanticUndefined

import bridge_server
from bridge_server.assembly.application import house
from bridge_server.assembly.foundation import lay_foundation
from bridge_server.cli.commands import commands
from bridge_server.cli.serve import serve_command
from bridge_server.description.site import every_problem
from bridge_server.kernel.errors import BridgeError
from bridge_server.settings.settings import ENVIRONMENT_PREFIX, Settings, shown_value
from bridge_server.settings.sources import secret_names
from bridge_server.web.problems import status_of
from bridge_server.web.routes import NO_ORIGINS, Route

PAGE = Path(__file__).parent.parent / "docs" / "reference.md"
_WIDTH = 118
_TOKEN = "t" * 40
_GENERATION_07 = "/compat/v0.7"
_DEFAULT_OF_MACHINE = {"data_dir": "`$STATE_DIRECTORY`, else `$XDG_DATA_HOME/bridge-server`"}
_MODELS = {
    "ServerSettings": "The server",
    "StorageSettings": "Storage",
    "ReportingSettings": "Log and metrics",
    "WebSettings": "Connections and requests",
    "RelaySettings": "The bridge",
    "PubSubSettings": "WebSockets of generations 1.x and 2.x",
    "NotifySettings": "Notifications",
    "AdminSettings": "The admin API",
    "ConsoleSettings": "The console",
    "InboxSettings": "Inboxes",
    "PushSettings": "Pushes",
    "WalletSettings": "The wallet over JSON-RPC",
    "OutboxSettings": "Webhooks and the outbox",
    "TestModeSettings": "Test mode",
}
"""The headings of the models of settings. A model that is not here gets its own name."""


def item(text: str) -> str:
    """An item of a list, in lines that are not too long. No line breaks inside of a code span."""
    glued = re.sub(r"`[^`]*`", lambda code: code.group().replace(" ", "\0"), text)
    lines = textwrap.wrap(
        glued,
        _WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace("\0", " ")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def settings_part() -> str:
    """Every setting by subject, with its flag, variable and default, then what each means."""
    return "\n\n".join(map(_settings_of, reversed(Settings.__bases__)))


def _settings_of(model: type) -> str:
    names = [name for name in model.__annotations__ if name in Settings.model_fields]
    flags = {str(each.name): each.opts[0] for each in serve_command.params}
    rows = [
        (f"`{name}`", _flag(name, flags), f"`{ENVIRONMENT_PREFIX}{name.upper()}`", _default(name))
        for name in names
    ]
    meanings = "\n".join(item(f"`{name}`: {Settings.model_fields[name].description}") for name in names)
    title = _MODELS.get(model.__name__, model.__name__)
    columns = table(("setting", "flag", "environment variable", "default"), rows)
    return f"### {title}\n\n{columns}\n\n{meanings}"


def _flag(name: str, flags: Mapping[str, str]) -> str:
    if name in flags:
        return f"`{flags[name]}`"
    return "-" if name in secret_names() else "`--set`"


def _default(name: str) -> str:
    field = Settings.model_fields[name]
    if field.default is PydanticUndefined or name in _DEFAULT_OF_MACHINE:
        return _DEFAULT_OF_MACHINE[name]
    value = shown_value(field.default, is_default=True)
    if value is None or value == "":
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def problems_part() -> str:
    """Every code of a problem by its HTTP status, with what it means."""
    kinds: dict[int, dict[str, str]] = defaultdict(dict)
    problems = every_problem()
    for kind in _failures():
        kinds[status_of(kind.__new__(kind))][kind.code] = f"`{kind.code}`: {problems[kind.code].meaning}"
    return "\n\n".join(
        f"### {status}\n\n" + "\n".join(item(text) for _, text in sorted(kinds[status].items()))
        for status in sorted(kinds)
    )


def _failures() -> list[type[BridgeError]]:
    for module in pkgutil.walk_packages(bridge_server.__path__, "bridge_server."):
        if not module.name.endswith(("__main__", ".pytest_plugin")):
            importlib.import_module(module.name)
    return [kind for kind in _descendants(BridgeError) if kind.__module__.startswith("bridge_server.")]


def _descendants(kind: type[BridgeError]) -> Iterator[type[BridgeError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _descendants(child)


def routes_part() -> str:
    """Every route by its subject, with its access rules."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            data_dir=Path(folder), admin_token=_TOKEN, admin_wallet=True, metrics_token=_TOKEN, test=True
        )
        rooms = house(lay_foundation(settings))
    head = ("request", "name", "bearer token", "web pages", "largest body")
    tables = [
        f"### {room.name}\n\n{table(head, rows)}"
        for room in rooms
        if (rows := [_route(row) for row in room.routes if not row.path.startswith(_GENERATION_07)])
    ]
    return "\n\n".join(tables)


def _route(row: Route) -> tuple[str, ...]:
    token = "yes" if row.access.takes_token else "-"
    access = row.access
    pages = "any" if access.any_origin else "configured" if access.origins is not NO_ORIGINS else "-"
    limit = f"{row.body_limit_bytes // 1024} KiB" if row.body_limit_bytes else "-"
    return f"`{row.request}`", f"`{row.name}`", token, pages, limit


def commands_part() -> str:
    """Every command with its arguments, and what it does."""
    return "\n".join(_commands(commands, "bridge-server"))


def _commands(group: click.Group, prefix: str) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, f"{prefix} {name}")
        elif not command.hidden:
            yield item(f"`{' '.join([prefix, name, *_arguments(command)])}`: {_first_sentence(command)}")


def _arguments(command: click.Command) -> list[str]:
    context = click.Context(command)
    return [each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)]


def _first_sentence(command: click.Command) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


PARTS: dict[str, Callable[[], str]] = {
    "Routes by subject": routes_part,
    "Settings by subject": settings_part,
    "Problems by code": problems_part,
    "Commands in full": commands_part,
}


def written(page: str) -> str:
    """The page with its parts as the program has them."""
    for title, part in PARTS.items():
        pattern = re.compile(rf"(?<=^## {title}\n)(?P<introduction>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
        (match,) = pattern.finditer(page)
        introduction = re.split(r"^(?:### |- |\| )", match["introduction"], maxsplit=1, flags=re.MULTILINE)[0]
        text = "\n\n".join(filter(None, (introduction.strip(), part())))
        page = f"{page[: match.start()]}\n{text}\n\n{page[match.end() :]}"
    return page.rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    is_check = parser.parse_args().check
    before = PAGE.read_text("utf-8")
    after = written(before)
    if not is_check:
        PAGE.write_text(after, "utf-8")
    elif before != after:
        sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), after.splitlines(True), n=0))
        sys.exit("docs/reference.md is not what the program has: `scripts/reference` writes it")


if __name__ == "__main__":
    main()
