"""The reference lists every metric, and the page for operators names commands that exist."""

import re
from pathlib import Path

import click

from bridge_server.assembly.system_routes import MEANINGS
from bridge_server.cli.commands import commands

DOCS = Path(__file__).parents[2] / "docs"
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
