"""The program about itself: its version, the help of every command, output that it cannot write."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bridge_server.cli.commands import commands
from bridge_server.kernel.version import VERSION
from bridge_server.kit.testing.server import environment_without_settings
from tests.cli.conftest import Invoke
from tests.support.command import COMMAND, run_command, run_new_interpreter
from tests.support.needs import slow
from tests.support.rows import each_row

_FULL = Path("/dev/full")


def test_the_version_is_1_and_three_numbers_as_text_and_as_json(invoke: Invoke) -> None:
    assert invoke("version").stdout == f"Bridge Server {VERSION}\n"
    assert json.loads(invoke("version", "--json").stdout) == {"name": "Bridge Server", "version": VERSION}
    assert re.fullmatch(r"1\.\d+\.\d+", VERSION)


def test_the_help_has_a_short_line_for_each_command_under_five_headings(invoke: Invoke) -> None:
    _, *sections = re.split(r"^(?=\w+:$)", invoke("--help").stdout, flags=re.MULTILINE)
    assert invoke("-h").stdout == invoke("--help").stdout
    lines = {heading: rest for heading, *rest in (each.strip().splitlines() for each in sections[1:])}
    assert list(lines) == ["Run:", "Notify:", "Wallet:", "Operate:", "Tools:"]
    every = [line for section in lines.values() for line in section]
    assert sorted(line.split()[0] for line in every) == commands.list_commands(click.Context(commands))
    assert all(re.fullmatch(r"  \w+ +[A-Z].*\.", line) for line in every)
    assert max(map(len, every)) <= 60


def test_without_a_command_that_it_knows_the_program_says_how_to_name_one(invoke: Invoke) -> None:
    nothing, option, unknown = run_command(), run_command("--port", "0"), invoke("nonsense")
    assert (nothing.exit_code, nothing.out, option.exit_code, option.out) == (2, "", 2, "")
    assert "\nRun:\n" in nothing.err
    assert nothing.err.endswith("name a command; `bridge-server serve` starts a server\n")
    assert "--port: name the command first, as in `bridge-server serve --port`" in option.err
    assert unknown.exit_code == 2
    assert "nonsense" in unknown.stderr


def test_without_a_command_a_terminal_shows_the_help() -> None:
    ours, theirs = os.openpty()
    try:
        process = subprocess.Popen(COMMAND, stdin=theirs, stdout=theirs, stderr=theirs)
        assert process.wait(60) == 0
        text = os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert text.startswith("Usage: bridge-server [OPTIONS] COMMAND")
    assert "\n  serve " in text


def every_command(group: click.Group = commands, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        yield (*path, name)
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))


def test_every_command_has_help_of_whole_sentences(invoke: Invoke) -> None:
    paths = list(every_command())
    for path in paths:
        result = invoke(*path, "--help")
        assert result.exit_code == 0, path
        assert result.stdout.startswith(f"Usage: bridge-server {' '.join(path)} "), path
        _, _, listed = result.stdout.partition("\nCommands:\n")
        assert "..." not in listed, path
        entries = re.split(r"\n  (?=\S)", listed.rstrip()) if listed else []
        assert all(entry.endswith(".") for entry in entries), path
    assert len(paths) > 60
    assert ("project", "type", "rename") in paths


@each_row("arguments", [("--version",), ("version",)], ids=" ".join)
def test_the_version_loads_neither_the_server_nor_its_settings(arguments: tuple[str, ...]) -> None:
    finished = run_new_interpreter(*arguments, environment={"PYTHONPROFILEIMPORTTIME": "1"})
    assert finished.exit_code == 0
    assert VERSION in finished.out
    said = finished.err.splitlines()
    assert [line for line in said if not line.startswith("import time:")] == []
    loaded = {line.rpartition("|")[2].strip() for line in said}
    assert "bridge_server.cli.main" in loaded
    assert not loaded & {"aiohttp", "asyncio", "pydantic", "structlog", "bridge_server.settings.settings"}


@slow
@pytest.mark.skipif(not _FULL.exists(), reason="needs /dev/full")
def test_a_command_says_that_its_output_cannot_be_written() -> None:
    with _FULL.open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "openapi"],
            env=environment_without_settings(), stdout=full, stderr=subprocess.PIPE, timeout=120, check=False,
        )  # fmt: skip
    said = done.stderr.decode()
    assert said == "bridge-server: standard output cannot be written: No space left on device\n"
    assert done.returncode == 2
