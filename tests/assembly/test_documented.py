"""The documentation lists every route and metric, and names commands that exist."""

import re
from pathlib import Path

import click

from bridge_server.assembly.application import house
from bridge_server.assembly.foundation import lay_foundation
from bridge_server.assembly.system_routes import MEANINGS
from bridge_server.cli.commands import commands
from bridge_server.settings.settings import Settings

# The protocol documentation lists every route that a server can have.

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("protocol.md", "admin.md")
"""The protocol page leaves the list of the admin API's routes to the other."""

TOKEN = "t" * 40
GENERATION_07 = "/compat/v0.7"
"""The bridge's routes in the dialect of generation 0.7: the documentation names only this prefix."""

PROJECT = "/admin/projects/{project_id}"
"""The documentation abbreviates this prefix as `...`."""


def nameless(path: str) -> str:
    """The path without the names and patterns of its parameters."""
    return re.sub(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", "{}", path)


def items(page: Path) -> list[str]:
    """The lines of a page; the lines of one item of a list are one."""
    return page.read_text("utf-8").replace("\n  ", " ").splitlines()


def listed() -> set[tuple[str, str]]:
    """Each method with each path in the code spans of its line or item. A WebSocket is opened by GET."""
    found = set()
    for line in (line for page in PAGES for line in items(DOCS / page)):
        spans = " ".join(re.findall(r"`([^`]*)`", line))
        methods = re.findall(r"\b(GET|POST|PUT|DELETE)\b", spans) + ["GET"] * ("WebSocket" in line)
        paths = re.findall(r"(?:^|\s)(/[^\s?]*)", spans.replace("...", PROJECT))
        found |= {(method, nameless(path)) for method in methods for path in paths}
    return found


def test_every_route_is_documented(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path, admin_token=TOKEN, admin_wallet=True, metrics_token=TOKEN, rpc_token=TOKEN
    )
    rows = [row for room in house(lay_foundation(settings)) for row in room.routes]

    missing = {(row.method, nameless(row.path.removeprefix(GENERATION_07))) for row in rows} - listed()

    assert missing == set()


# The reference lists every metric, and the page for operators names commands that exist.

PAGE = (DOCS / "operate.md").read_text("utf-8")
REFERENCE = (DOCS / "reference.md").read_text("utf-8")
OTHERS = {
    "build_info",
    "http_requests",
    "http_request_seconds",
    "refused_requests",
    "outbox_oldest_due_seconds",
    "notifications",
    "push_attempts",
}
"""Figures that have labels, or that are read from the database."""


def test_the_metrics_of_the_page_are_those_of_the_server() -> None:
    section = REFERENCE.partition("## Metrics")[2].partition("\n## ")[0]

    named = {name.removesuffix("_total") for name in re.findall(r"`bridge_(\w+)`", section)}

    assert named == MEANINGS.keys() | OTHERS


def test_the_commands_of_the_page_exist() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("bridge-server ")]
    assert len(lines) >= 8

    for line in lines:
        words = line.split()[1:]
        command: click.Command | None = commands
        context = click.Context(commands)
        while isinstance(command, click.Group):
            command = command.get_command(context, words.pop(0))
        assert command is not None
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options
