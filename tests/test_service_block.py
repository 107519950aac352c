"""The lines of docs/operate.md for a service work as they stand and in their order.

The machine is played: its directories are in the test's own, `sudo` and `useradd` change nobody, and
`systemctl` starts what the unit file says.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_INSTALLED = "sudo /opt/bridge-server/bin/pip install "
_PLAYED = {
    "sudo": '[ "$1" = -u ] && shift 2; exec "$@"',
    "useradd": ":",
    "python3": ":",
    "systemctl": """
[ "$*" = "restart bridge-server" ] || exit 0
export STATE_DIRECTORY="$PLAYED/var/lib/bridge-server"
mkdir -p "$STATE_DIRECTORY"
unit="$PLAYED/etc/systemd/system/bridge-server.service"
grep -qx 'User=bridge-server' "$unit" || exit 1
$(sed -n 's/^ExecStart=//p' "$unit") >"$PLAYED/log" 2>&1 &
echo $! >"$PLAYED/pid"
until [ -e "$STATE_DIRECTORY/server.json" ]; do sleep 0.1; kill -0 $(cat "$PLAYED/pid") || exit 1; done
""",
}
_PROGRAM = """#!{python}
import os, sys
from pathlib import Path
from bridge_server.cli import main, service, service as service_unit

service.UNIT_FILE = Path("{machine}/etc/systemd/system/bridge-server.service")
service.CREDENTIALS = service_unit.CREDENTIALS = Path("{machine}/etc/bridge-server/credentials")
service.install_command.params[1].default = Path("{machine}/etc/bridge-server/bridge-server.toml")
service.SYSTEMD_RUNS, service.HIDDEN = Path("{machine}"), ("/home",)
service.check_user = lambda user: None
if "service" in sys.argv:
    os.geteuid = lambda: 0
main.main()
"""
"""The program as it is installed in /opt, with the machine's directories for its own."""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Path]:
    """The directories that the lines take for granted, with the program in its place."""
    for directory in ("bin", "opt/bridge-server/bin", "etc/systemd/system", "var/lib"):
        (tmp_path / directory).mkdir(parents=True)
    for name, script in _PLAYED.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    program = tmp_path / "opt" / "bridge-server" / "bin" / "bridge-server"
    program.write_text(_PROGRAM.format(python=sys.executable, machine=tmp_path))
    program.chmod(0o755)
    yield tmp_path
    pid = tmp_path / "pid"
    if pid.exists():
        os.kill(int(pid.read_text()), signal.SIGTERM)


def test_the_lines_make_a_service_and_a_command_finds_its_database(machine: Path) -> None:
    page = (_ROOT / "docs" / "operate.md").read_text("utf-8")
    (lines,) = re.findall(r"```sh\n(sudo useradd .*?)```", page, re.DOTALL)
    assert f'\n{_INSTALLED}--constraint constraints.txt ".[fast]"\n' in lines
    lines = lines.replace(_INSTALLED, "true ")
    for directory in ("/opt/", "/etc/", "/var/lib/"):
        lines = lines.replace(directory, f"{machine}{directory}")
    path = f"{machine / 'bin'}:{os.environ['PATH']}"
    environment = {"PATH": path, "PLAYED": str(machine), "BRIDGE_PORT": "0", "HOME": str(machine)}
    command = ["sh", "-euc", lines]

    finished = subprocess.run(
        command, cwd=_ROOT, env=environment, capture_output=True, encoding="utf-8", timeout=240, check=False
    )

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.endswith("there are no projects: `project create` makes one\n")
    assert (machine / "etc/bridge-server/bridge-server.toml").exists()
    assert (machine / "var/lib/bridge-server/bridge.sqlite3").exists()
