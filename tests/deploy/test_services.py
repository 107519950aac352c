"""The units for systemd: valid, hardened, as `service install` prints them; their commands work.

White-box: a test does not write to the machine's systemd.
"""

import os
import pwd
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bridge_server.cli import service
from bridge_server.cli.commands import commands
from bridge_server.cli.service import ServiceUnit
from tests.support.command import watched_server

_DEPLOY = Path(__file__).parents[2] / "deploy"
_PROGRAM = "/opt/bridge-server/bin/bridge-server"
_UNITS = ("bridge-server.service", "bridge-backup.service", "bridge-backup.timer")


needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")


def test_the_units_are_those_that_the_command_writes_and_the_timer_starts_the_backup() -> None:
    unit = ServiceUnit([_PROGRAM], Path("/etc/bridge-server/bridge-server.toml"))
    single_file = ServiceUnit(["/opt/bridge-server.pyz"], Path("/etc/bridge-server.toml")).text()
    assert (_DEPLOY / "bridge-server.service").read_text("utf-8") == unit.text()
    assert "\nCacheDirectory=bridge-server\nEnvironment=SHIV_ROOT=%C/bridge-server\n" in single_file
    timer = _DEPLOY / "bridge-backup.timer"
    assert "OnCalendar=daily" in timer.read_text("utf-8").splitlines()
    assert timer.with_suffix(".service").exists()


@needs_systemd
def test_systemd_finds_the_units_without_fault_and_the_services_hardened(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("bridge-server")  # where it is on this machine
    units = [tmp_path / name for name in _UNITS]
    for unit in units:
        unit.write_text((_DEPLOY / unit.name).read_text("utf-8").replace(_PROGRAM, str(program)))

    assert _faults(*units) == (0, [])
    for unit in units[:2]:
        # In tenths, of 100: systemd calls what is below 40 OK.
        checked = _analyze("security", "--offline=true", "--threshold=25", unit)
        assert checked.returncode == 0, checked.stdout


@needs_systemd
def test_a_unit_with_an_existing_user_secrets_and_odd_names_is_valid(tmp_path: Path) -> None:
    program = tmp_path / "a 100% program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "bridge-server.service"
    secrets = ["admin_token", "rpc_token"]
    made = ServiceUnit([str(program)], Path("/etc/with $dollar.toml"), "daemon", secrets).text()
    unit.write_text(made)

    assert _faults(unit) == (0, [])
    assert "LoadCredential=rpc_token:/etc/bridge-server/credentials/rpc_token\n" in made
    assert "DynamicUser" not in made


def test_the_backup_copies_a_running_server_and_keeps_the_newest_seven(tmp_path: Path) -> None:
    backups = tmp_path / "bridge-backups"
    backups.mkdir()
    for day in range(10, 18):
        (backups / f"bridge-202001{day}T000000Z.sqlite3").touch()
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "bridge-server").symlink_to("data")
    unit = (_DEPLOY / "bridge-backup.service").read_text("utf-8")
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program = str(Path(sys.executable).with_name("bridge-server"))
    command = shlex.split(line.replace(_PROGRAM, program).replace("%S", str(tmp_path)))

    with watched_server(tmp_path):
        subprocess.run(command, env={"PATH": os.environ["PATH"]}, check=True, timeout=60)

    kept = sorted(backups.glob("bridge-*.sqlite3"))
    assert [file.name[:15] for file in kept[:6]] == [f"bridge-202001{day}" for day in range(12, 18)]
    assert sqlite3.connect(kept[6]).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert kept[6].with_suffix(".keys").is_dir()


def _analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", "--no-pager", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)


def _faults(*units: Path) -> tuple[int, list[str]]:
    checked = _analyze("verify", *units)
    return checked.returncode, [line for line in checked.stderr.splitlines() if "bridge" in line]


# `bridge-server service install`; systemctl is a fake, and the machine's directories are the test's own.


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root installs a service")


class Machine:
    """A machine that systemd runs, as `service install` finds it."""

    def __init__(self, root: Path) -> None:
        self.unit = root / "etc" / "systemd" / "bridge-server.service"
        self.config = root / "etc" / "bridge-server" / "bridge-server.toml"
        self.credentials = root / "etc" / "bridge-server" / "credentials"
        self.calls = root / "calls"
        self.systemctl = root / "bin" / "systemctl"
        for folder in (self.unit.parent, self.systemctl.parent):
            folder.mkdir(parents=True)
        self.answers("true")

    def answers(self, commands: str) -> None:
        """Have systemctl keep its arguments, and run these commands."""
        self.systemctl.write_text(f'#!/bin/sh\necho "$*" >>"{self.calls}"\n{commands}\n')
        self.systemctl.chmod(0o755)

    def install(self, *arguments: str) -> Result:
        words = ["service", "install", "--config", str(self.config), *arguments]
        return CliRunner().invoke(commands, words, prog_name="bridge-server")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setattr(service, "UNIT_FILE", machine.unit)
    monkeypatch.setattr(service, "CREDENTIALS", machine.credentials)
    monkeypatch.setattr(service, "SYSTEMD_RUNS", tmp_path)
    monkeypatch.setattr(service, "HIDDEN", ("/home",))
    monkeypatch.setenv("PATH", f"{machine.systemctl.parent}:{os.environ['PATH']}")
    return machine


def test_unit_and_settings_are_written_and_the_service_is_started(machine: Machine) -> None:
    printed = machine.install("--print")
    assert printed.exit_code == 0
    assert "[Service]\nType=notify\nExecStart=" in printed.stdout
    assert [path.exists() for path in (machine.unit, machine.config, machine.calls)] == [False] * 3

    result = machine.install()
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("ready: http://127.0.0.1:8080\n")
    assert f"serve --config {machine.config}\n" in machine.unit.read_text()
    assert machine.config.read_text().startswith("# The settings")
    assert machine.credentials.stat().st_mode & 0o777 == 0o700
    calls = ["daemon-reload", "enable --quiet bridge-server", "restart bridge-server"]
    assert machine.calls.read_text().splitlines() == calls


def test_settings_secrets_and_a_user_that_are_there_are_taken(machine: Machine) -> None:
    settings = 'public_url = "https://bridge.example.org"'
    machine.credentials.mkdir(parents=True)
    machine.config.write_text(settings)
    for name in ("admin_token", "apns_key", "of_something_else"):
        (machine.credentials / name).touch()

    assert machine.install("--user", "nobody").stdout.startswith("ready: https://bridge.example.org\n")
    assert machine.config.read_text() == settings
    unit = machine.unit.read_text()
    assert "\nUser=nobody\n" in unit
    assert "DynamicUser" not in unit
    assert re.findall("^LoadCredential=(.*)$", unit, re.MULTILINE) == [
        f"{name}:{machine.credentials / name}" for name in ("admin_token", "apns_key")
    ]


def test_an_impossible_installation_is_refused_and_changes_nothing(machine: Machine) -> None:
    machine.config.parent.mkdir()
    for arguments, toml, complaint in (
        (["--user", "nobody-of-that-name"], "", "there is no such user"),
        ([], "prot = 1", "there is no setting prot; did you mean port?"),
        ([], 'data_dir = "/srv/bridge"', "the service can write /var/lib/bridge-server only"),
        (["--config", "/home/me/bridge.toml"], "", "/home/me/bridge.toml cannot be seen by the service"),
    ):
        machine.config.write_text(toml)
        result = machine.install(*arguments)
        assert (result.exit_code, complaint in result.stderr) == (2, True), result.stderr
        assert not machine.unit.exists()
        assert not machine.calls.exists()


def test_settings_that_the_service_cannot_read_are_refused(machine: Machine) -> None:
    machine.config.parent.mkdir()
    machine.config.touch(mode=0o600)
    result = machine.install()
    assert (result.exit_code, machine.unit.exists()) == (2, False)
    assert "cannot be read by the service: chmod 644 it, and keep secrets in" in result.stderr
    os.chown(machine.config, pwd.getpwnam("daemon").pw_uid, -1)
    assert machine.install("--user", "daemon").exit_code == 0


def test_a_service_that_does_not_start_is_one_line_that_names_the_log_or_how_to_see_the_unit(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.answers('[ "$1" != restart ] || { echo "Job for bridge-server.service failed." >&2; exit 1; }')
    result = machine.install()
    assert (result.exit_code, result.stderr) == (
        2,
        "bridge-server: systemctl restart bridge-server: Job for bridge-server.service failed.; "
        "the log has the reason: journalctl -u bridge-server -n 20\n",
    )

    monkeypatch.setattr(service, "SYSTEMD_RUNS", machine.config / "nowhere")
    result = machine.install()
    assert (result.exit_code, result.stderr) == (
        2, "bridge-server: systemd does not run this machine: `service install --print` shows the unit file\n"
    )  # fmt: skip
