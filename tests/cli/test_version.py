"""What the command says of itself."""

import json
import re

from bridge_server.version import VERSION
from tests.cli.conftest import Invoke
from tests.support.command import run_command, run_new_interpreter
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


@each_row("group", [(), *((name,) for name in GROUPS), ("project", "type")], ids=" ".join)
def test_help_tells_whole_sentences(invoke: Invoke, group: tuple[str, ...]) -> None:
    result = invoke(*group, "--help")

    _, _, commands = result.stdout.partition("\nCommands:\n")
    assert commands
    assert "..." not in commands
    entries = re.split(r"\n  (?=\S)", commands.rstrip())
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


def test_without_a_command_flags_are_those_of_serve() -> None:
    finished = run_command("--port", "65536")

    assert finished.exit_code == 2
    assert finished.err == "bridge-server: port (flag --port): Input should be less than or equal to 65535\n"
