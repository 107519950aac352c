"""A folder of a user's own tests in JavaScript, with the package of this project installed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import orjson

from tests.support.node_packages import PACKAGES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "javascript" / "test"
SERVER = Path(sys.executable).with_name("bridge-server")

_SECONDS = 240.0


class NodeProject:
    """A folder with `node_modules`; other packages in it are those of tests/node."""

    def __init__(self, folder: Path, *packages: str) -> None:
        self.folder = folder
        modules = folder / "node_modules"
        for name in packages:
            (modules / name).parent.mkdir(parents=True, exist_ok=True)
            (modules / name).symlink_to(PACKAGES / "node_modules" / name, target_is_directory=True)
        installed = modules / "@bridge-server" / "test"
        shutil.copytree(PACKAGE / "source", installed / "source")
        shutil.copy(PACKAGE / "package.json", installed)
        self.write({"package.json": '{"type": "module"}'})

    def write(self, files: Mapping[str, str]) -> None:
        """Write these files, by name."""
        for name, text in files.items():
            (self.folder / name).write_text(text, "utf-8")

    def run(
        self, *command: str, environment: Mapping[str, str] | None = None, within_seconds: float = _SECONDS
    ) -> str:
        """The output of a command of Node; an AssertionError with it if the command fails."""
        variables = {"BRIDGE_SERVER_BIN": str(SERVER), "NO_COLOR": "1", "CI": "1", **(environment or {})}
        finished = subprocess.run(
            ["node", *command],
            cwd=self.folder,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=within_seconds,
            check=False,
        )
        assert finished.returncode == 0, finished.stdout
        return finished.stdout

    def program(self, package: str) -> str:
        """The file of a package's command, for `run`."""
        folder = self.folder / "node_modules" / package
        programs = orjson.loads((folder / "package.json").read_bytes())["bin"]
        return str(folder / (programs if isinstance(programs, str) else next(iter(programs.values()))))
