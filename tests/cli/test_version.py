"""What the command says of itself."""

import json
import os
import re
import subprocess

import click

from bridge_server.cli.commands import commands
from bridge_server.kernel.version import VERSION
from tests.cli.conftest import Invoke
from tests.support.command import COMMAND, run_command, run_new_interpreter
from tests.support.rows import each_row

COMMANDS = (
    "serve", "project", "subscriber", "config", "backup", "version", "account", "approvals", "device",
    "keys", "push",
)  # fmt: skip
SUBCOMMANDS = (
    ("config", "check"),
    *(
        ("project", name)
        for name in (
            "create", "list", "show", "rotate-secret", "revoke-secret", "limits", "webhook", "delete",
            "analytics", "type",
        )
    ),
    *(("project", "type", name) for name in ("add", "rename", "remove", "list")),
    *(("subscriber", name) for name in ("list", "add", "remove", "export", "import")),
)  # fmt: skip


def test_version_names_the_program_and_its_version(invoke: Invoke) -> None:
    result = invoke("version")

    assert (result.exit_code, result.stdout) == (0, f"Bridge Server {VERSION}\n")


def test_version_as_json(invoke: Invoke) -> None:
    assert json.loads(invoke("version", "--json").stdout) == {"name": "Bridge Server", "version": VERSION}


def test_the_version_is_1_and_three_numbers() -> None:
    major, *others = VERSION.split(".")

    assert major == "1"
    assert len(others) == 2
    assert all(number.isdigit() for number in others)


@each_row("flag", ["-h", "--help"])
def test_help_lists_every_command(invoke: Invoke, flag: str) -> None:
    result = invoke(flag)

    assert result.exit_code == 0
    assert all(f"\n  {command} " in result.stdout for command in COMMANDS)


def test_the_help_has_a_short_line_for_each_command_under_five_headings(invoke: Invoke) -> None:
    _, *sections = re.split(r"^(?=\w+:$)", invoke("--help").stdout, flags=re.MULTILINE)

    lines = {heading: rest for heading, *rest in (each.strip().splitlines() for each in sections[1:])}
    assert list(lines) == ["Run:", "Notify:", "Wallet:", "Operate:", "Tools:"]
    every = [line for section in lines.values() for line in section]
    assert sorted(line.split()[0] for line in every) == commands.list_commands(click.Context(commands))
    assert all(re.fullmatch(r"  \w+ +[A-Z].*\.", line) for line in every)
    assert max(map(len, every)) <= 60


def test_without_a_command_and_a_terminal_the_help_is_a_refusal() -> None:
    finished = run_command()

    assert (finished.exit_code, finished.out) == (2, "")
    assert "\nRun:\n" in finished.err
    assert finished.err.endswith("name a command; `bridge-server serve` starts a server\n")


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


def test_options_before_the_command_are_refused_with_the_command() -> None:
    finished = run_command("--port", "0")

    assert (finished.exit_code, finished.out) == (2, "")
    assert "--port: name the command first, as in `bridge-server serve --port`" in finished.err


@each_row("command", [*((name,) for name in COMMANDS), *SUBCOMMANDS], ids=" ".join)
def test_every_command_has_help(invoke: Invoke, command: tuple[str, ...]) -> None:
    result = invoke(*command, "--help")

    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: bridge-server {' '.join(command)} ")


def test_serve_documents_every_flag_of_the_contract(invoke: Invoke) -> None:
    text = invoke("serve", "--help").stdout

    for flag in ("--host", "--port", "--data-dir", "--config", "--public-url", "--allow-private-webhooks"):
        assert flag in text
    assert "--access-log" in text
    assert "--ready-file" in text


GROUPS = ("account", "approvals", "config", "device", "keys", "project", "push", "subscriber")


@each_row("group", [*((name,) for name in GROUPS), ("project", "type")], ids=" ".join)
def test_help_tells_whole_sentences(invoke: Invoke, group: tuple[str, ...]) -> None:
    result = invoke(*group, "--help")

    _, _, listed = result.stdout.partition("\nCommands:\n")
    assert listed
    assert "..." not in listed
    entries = re.split(r"\n  (?=\S)", listed.rstrip())
    assert all(entry.endswith(".") for entry in entries)


@each_row("arguments", [("--version",), ("version",), ("version", "--json")], ids=" ".join)
def test_the_module_is_the_command_and_loads_neither_the_server_nor_its_settings_for_its_version(
    arguments: tuple[str, ...],
) -> None:
    finished = run_new_interpreter(*arguments, environment={"PYTHONPROFILEIMPORTTIME": "1"})

    assert finished.exit_code == 0
    assert VERSION in finished.out
    said = finished.err.splitlines()
    assert [line for line in said if not line.startswith("import time:")] == []
    loaded = {line.rpartition("|")[2].strip() for line in said}
    assert "bridge_server.cli.main" in loaded
    assert not loaded & {"aiohttp", "asyncio", "pydantic", "structlog", "bridge_server.settings.settings"}


def test_an_unknown_command_is_refused(invoke: Invoke) -> None:
    result = invoke("nonsense")

    assert result.exit_code == 2
    assert "nonsense" in result.stderr
