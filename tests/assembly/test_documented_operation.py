"""The page for operators lists every metric, and names commands that exist."""

import re
from pathlib import Path

import click

from bridge_server.assembly.metrics_meanings import MEANINGS
from bridge_server.cli.main import commands

PAGE = (Path(__file__).parents[2] / "docs" / "operate.md").read_text("utf-8")
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
    table = PAGE[PAGE.index("## Metrics") :]

    named = {name.removesuffix("_total") for name in re.findall(r"`bridge_(\w+)`", table)}

    assert named == MEANINGS.keys() | OTHERS


def test_the_commands_of_the_page_exist() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [line.split() for block in blocks for line in block.splitlines()]
    assert len(lines) >= 8

    for program, *words in lines:
        assert program == "bridge-server"
        command: click.Command | None = commands
        context = click.Context(commands)
        while isinstance(command, click.Group):
            command = command.get_command(context, words.pop(0))
        assert command is not None
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options
