"""scripts/system-packages installs what is missing, or says why it cannot; programs are fakes."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.node_project import ROOT
from tests.support.rows import each_row

ALL = "chromium-headless-shell nginx caddy prometheus postgresql pgbouncer valgrind"


class System:
    """A folder of programs that is the whole PATH; what they were called with is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls = folder / "calls"
        self._calls.touch()
        for name in ("chmod", "rm"):
            self.program(name)

    def program(self, name: str, commands: str = "true") -> None:
        """Put this program on the PATH."""
        file = self._folder / name
        file.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self._calls}"\n{commands}\n', "utf-8")
        file.chmod(0o755)

    def run(self) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        return subprocess.run(
            ["/bin/sh", ROOT / "scripts" / "system-packages"],
            env={"PATH": str(self._folder), "POLICY_FILE": str(self._folder / "policy-rc.d")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    @property
    def calls(self) -> list[str]:
        """The calls of programs, but for questions."""
        return [line for line in self._calls.read_text("utf-8").splitlines() if line.startswith("apt-get")]


@pytest.fixture
def system(tmp_path: Path) -> System:
    """A system as root sees it, in which nothing is installed."""
    system = System(tmp_path)
    system.program("apt-get")
    system.program("dpkg-query", "exit 1")
    system.program("id", "echo 0")
    return system


def test_missing_packages_are_installed_without_recommended_packages(system: System) -> None:
    finished = system.run()

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, f"installed: {ALL}\n", "")
    assert system.calls == ["apt-get update -qq", f"apt-get install -y -qq --no-install-recommends {ALL}"]


def test_no_service_is_started(system: System, tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    system.program("apt-get", f'[ "$1" = update ] || cat <"{policy}" >&2')
    system.program("cat", 'while read -r line; do echo "$line"; done')
    system.program("rm", f'exec {os.sep}bin/rm "$@"')

    finished = system.run()

    assert "exit 101" in finished.stderr
    assert not policy.exists()


def test_installed_packages_need_neither_root_nor_network(system: System) -> None:
    system.program("dpkg-query", "echo installed")
    system.program("id", "echo 1000")

    finished = system.run()

    assert (finished.returncode, finished.stdout) == (0, f"installed already: {ALL}\n")
    assert system.calls == []


def test_another_user_than_root_reads_how(system: System) -> None:
    system.program("id", "echo 1000")

    finished = system.run()

    assert finished.returncode == 1
    assert finished.stderr == (
        f"scripts/system-packages: only root can install {ALL}: sudo scripts/system-packages\n"
    )


@each_row("step", ["update", "install"])
def test_a_failure_of_apt_is_one_clear_line(system: System, step: str) -> None:
    system.program("apt-get", f'[ "$1" != {step} ]')

    finished = system.run()

    assert finished.returncode == 1
    assert finished.stderr.startswith("scripts/system-packages: apt-get ")


def test_on_a_system_without_apt_the_failure_names_the_programs(tmp_path: Path) -> None:
    finished = System(tmp_path).run()

    assert finished.returncode == 1
    assert f"this system has no apt-get: install {ALL}" in finished.stderr
