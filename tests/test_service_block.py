"""The README's lines for a service work as they stand and in their order.

The machine is played: its directories are in the test's own, `sudo` and `useradd` change nobody, and
`systemctl` starts what the unit file says.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_DIRECTORIES = ("/opt/", "/etc/", "/var/lib/")
_SET_UP = "scripts/serve version"
_PLAYED = {
    "sudo": '[ "$1" = -u ] && shift 2; exec "$@"',
    "useradd": ":",
    "install": 'for last; do :; done; : >"$last"; chmod 600 "$last"',
    "systemctl": """
[ "$*" = "enable --now bridge-server" ] || exit 0
export STATE_DIRECTORY="$PLAYED/var/lib/bridge-server"
mkdir -p "$STATE_DIRECTORY"
unit="$PLAYED/etc/systemd/system/bridge-server.service"
$(sed -n 's/^ExecStart=//p' "$unit") >"$PLAYED/log" 2>&1 &
echo $! >"$PLAYED/pid"
until [ -e "$STATE_DIRECTORY/server.json" ]; do sleep 0.1; kill -0 $(cat "$PLAYED/pid") || exit 1; done
""",
}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Path]:
    """The directories that the lines take for granted, and a .venv so that none is set up."""
    for directory in ("bin", "opt/bridge-server", "etc/systemd/system", "var/lib"):
        (tmp_path / directory).mkdir(parents=True)
    for name, script in _PLAYED.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "opt" / "bridge-server" / ".venv").symlink_to(_ROOT / ".venv")
    yield tmp_path
    pid = tmp_path / "pid"
    if pid.exists():
        os.kill(int(pid.read_text()), signal.SIGTERM)


def is_checkout() -> bool:
    """Whether git can tell what is in this directory."""
    command = ["git", "rev-parse", "HEAD"]
    return (
        shutil.which("git") is not None
        and subprocess.run(command, cwd=_ROOT, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not is_checkout(), reason="needs a checkout")
def test_the_lines_make_a_service_and_a_command_finds_its_database(machine: Path) -> None:
    (lines,) = re.findall(r"```sh\n(sudo mkdir .*?)```", (_ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert f"/opt/bridge-server/{_SET_UP}" in lines
    lines = lines.replace(f"/opt/bridge-server/{_SET_UP}", "true")
    for directory in _DIRECTORIES:
        lines = lines.replace(directory, f"{machine}{directory}")
    path = f"{machine / 'bin'}:{os.environ['PATH']}"

    finished = subprocess.run(
        ["sh", "-euc", lines],
        cwd=_ROOT,
        env={"PATH": path, "PLAYED": str(machine), "BRIDGE_PORT": "0", "HOME": str(machine)},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.endswith("there are no projects: `project create` makes one\n")
    assert (machine / "opt/bridge-server/setup.cfg").exists()
    assert (machine / "var/lib/bridge-server/bridge.sqlite3").exists()
