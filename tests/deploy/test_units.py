"""The units for systemd: valid, hardened, as `service install` prints them; their commands work."""

import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bridge_server.cli.service import ServiceUnit
from tests.support.command import watched_server
from tests.support.rows import each_row

_DEPLOY = Path(__file__).parents[2] / "deploy"
_PROGRAM = "/opt/bridge-server/bin/bridge-server"
_UNITS = ("bridge-server.service", "bridge-backup.service", "bridge-backup.timer")
_MOST_EXPOSURE = "25"
"""Tenths, of 100: systemd calls what is below 40 OK."""

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units, with the program at a place where it is on this machine."""
    program = Path(sys.executable).with_name("bridge-server")
    for name in _UNITS:
        (tmp_path / name).write_text((_DEPLOY / name).read_text("utf-8").replace(_PROGRAM, str(program)))
    return tmp_path


def test_the_unit_equals_the_unit_that_the_command_writes() -> None:
    unit = ServiceUnit([_PROGRAM], Path("/etc/bridge-server/bridge-server.toml"))

    assert (_DEPLOY / "bridge-server.service").read_text("utf-8") == unit.text()


@needs_systemd
def test_systemd_finds_no_fault(units: Path) -> None:
    checked = _analyze("verify", *(units / name for name in _UNITS))

    of_ours = [line for line in checked.stderr.splitlines() if "bridge" in line]
    assert (checked.returncode, of_ours) == (0, [])


@needs_systemd
@each_row("name", [name for name in _UNITS if name.endswith(".service")])
def test_systemd_finds_the_service_hardened(units: Path, name: str) -> None:
    checked = _analyze("security", "--offline=true", f"--threshold={_MOST_EXPOSURE}", units / name)

    assert checked.returncode == 0, checked.stdout


@needs_systemd
def test_a_unit_with_an_existing_user_secrets_and_odd_names_is_valid(tmp_path: Path) -> None:
    program = tmp_path / "a 100% program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "bridge-server.service"
    made = ServiceUnit([str(program)], Path("/etc/with $dollar.toml"), "daemon", ["admin_token", "rpc_token"])
    unit.write_text(made.text())

    checked = _analyze("verify", unit)

    assert (checked.returncode, [line for line in checked.stderr.splitlines() if "bridge" in line]) == (0, [])
    assert "LoadCredential=rpc_token:/etc/bridge-server/credentials/rpc_token\n" in unit.read_text()
    assert "DynamicUser" not in unit.read_text()


def test_a_single_file_unpacks_itself_where_the_service_may_write() -> None:
    unit = ServiceUnit(["/opt/bridge-server.pyz"], Path("/etc/bridge-server.toml")).text()

    assert "\nCacheDirectory=bridge-server\nEnvironment=SHIV_ROOT=%C/bridge-server\n" in unit


def test_the_backup_copies_a_running_server_and_keeps_the_newest_seven(tmp_path: Path) -> None:
    backups = tmp_path / "bridge-backups"
    backups.mkdir()
    for day in range(10, 18):
        (backups / f"bridge-202001{day}T000000Z.sqlite3").touch()
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "bridge-server").symlink_to("data")
    (command,) = _commands("bridge-backup.service", {"%S": str(tmp_path)})

    with watched_server(tmp_path):
        subprocess.run(
            command,
            env={"PATH": os.environ["PATH"]},
            check=True,
            timeout=60,
        )

    kept = sorted(backups.glob("bridge-*.sqlite3"))
    assert [file.name[:15] for file in kept[:6]] == [f"bridge-202001{day}" for day in range(12, 18)]
    assert sqlite3.connect(kept[6]).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert kept[6].with_suffix(".keys").is_dir()


def test_the_timer_starts_the_backup() -> None:
    assert (_DEPLOY / "bridge-backup.timer").stem == (_DEPLOY / "bridge-backup.service").stem
    assert re.search(
        r"^OnCalendar=daily$", (_DEPLOY / "bridge-backup.timer").read_text("utf-8"), re.MULTILINE
    )


def _commands(unit: str, specifiers: Mapping[str, str]) -> list[list[str]]:
    """The commands of the unit as systemd reads them, with the program of this environment."""
    program = str(Path(sys.executable).with_name("bridge-server"))
    lines = re.findall(r"^ExecStart=(.*)$", (_DEPLOY / unit).read_text("utf-8"), re.MULTILINE)
    plain = [line.replace(_PROGRAM, program) for line in lines]
    for specifier, value in specifiers.items():
        plain = [line.replace(specifier, value) for line in plain]
    return [shlex.split(line) for line in plain]


def _analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", "--no-pager", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
