"""deploy/Dockerfile: its lines work as they stand.

The image's directories are in a directory of the test, and the base image is this machine, with the Python
and the pip of these tests.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bridge_server.kit.testing.server import environment_without_settings
from tests.deploy.programs import ANSWERED, pair_over
from tests.support.command import server_from_shell
from tests.support.needs import LAZY_PIP, slow

_ROOT = Path(__file__).parents[2]
_DEPLOY = _ROOT / "deploy"
_DIRECTORIES = re.compile(r"(?<![\w.-])/(?=(opt|src|data)\b)")
_SECONDS = 900


@dataclass
class Image:
    """The files that the lines of a Dockerfile make, in a directory."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    entry_point: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health_check: list[str] = field(default_factory=list)

    def build(self, dockerfile: str) -> None:
        """Carry out each line."""
        for line in dockerfile.replace("\\\n", " ").splitlines():
            word, _, rest = line.partition(" ")
            if word and word != "#":
                getattr(self, f"_{word.lower()}")(rest)

    def variables(self) -> dict[str, str]:
        """The environment of the image's programs."""
        return {**environment_without_settings(), **self.environment}

    def _from(self, _: str) -> None:
        self.environment.clear()

    def _copy(self, rest: str) -> None:
        if rest.startswith("--from=build"):  # both stages are in one directory
            return
        *sources, target = rest.split()
        folder = Path(self._here(target))
        for source in sources:
            if (_ROOT / source).is_dir():
                shutil.copytree(_ROOT / source, folder, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy(_ROOT / source, folder)

    def _run(self, rest: str) -> None:
        played = {"PATH": f"{self.root / 'played'}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
        finished = subprocess.run(
            ["sh", "-euc", self._here(rest)],
            env={**self.variables(), **played, **LAZY_PIP},
            capture_output=True,
            encoding="utf-8",
            timeout=_SECONDS,
            check=False,
        )
        assert finished.returncode == 0, rest + finished.stdout + finished.stderr

    def _env(self, rest: str) -> None:
        name, _, value = rest.partition("=")
        self.environment[name] = self._here(value.replace("$PATH", os.environ["PATH"]))

    def _entrypoint(self, rest: str) -> None:
        self.entry_point = json.loads(rest)

    def _cmd(self, rest: str) -> None:
        self.command = json.loads(rest)

    def _healthcheck(self, rest: str) -> None:
        self.health_check = json.loads(rest.partition(" CMD ")[2])

    def _stated(self, rest: str) -> None:
        assert rest in ("10001", "/data", "8080")

    _user = _volume = _expose = _stated

    def _here(self, text: str) -> str:
        return _DIRECTORIES.sub(f"{self.root}/", text)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """The image as this machine can make it: no user is added, and files belong to nobody else."""
    image = Image(tmp_path / "image")
    (image.root / "played").mkdir(parents=True)
    for name, script in {"useradd": ":", "install": 'for last; do :; done; mkdir -m 700 "$last"'}.items():
        (image.root / "played" / name).write_text(f"#!/bin/sh\n{script}\n")
        (image.root / "played" / name).chmod(0o755)
    image.build((_DEPLOY / "Dockerfile").read_text("utf-8"))
    return image


@slow
@pytest.mark.timeout(_SECONDS)
async def test_the_lines_of_the_dockerfile_make_a_server_that_says_whether_it_is_healthy(
    image: Image, tmp_path: Path
) -> None:
    data = Path(image.environment["BRIDGE_DATA_DIR"])
    program = [str(image.root / "opt" / "bridge-server" / "bin" / image.entry_point[0])]
    assert image.command == ["serve"]
    assert image.environment["BRIDGE_HOST"] == "0.0.0.0"

    with server_from_shell(
        tmp_path, "--data-dir", str(data), program=program, environment=image.environment
    ) as server:
        assert await pair_over(server.url) == ANSWERED
        healthy = _exit_code(image)

    assert (healthy, _exit_code(image)) == (0, 1)
    assert (data / "bridge.sqlite3").exists()


def test_the_build_context_has_what_the_dockerfile_copies() -> None:
    ignored = (_DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    copied = re.findall(r"^COPY (?!--)(.*) \S+$", (_DEPLOY / "Dockerfile").read_text("utf-8"), re.MULTILINE)

    names = [name for line in copied for name in line.split()]
    assert sorted(line[1:] for line in ignored if line.startswith("!")) == sorted(names)
    assert [name for name in names if not (_ROOT / name).exists()] == []


def test_the_compose_file_trusts_the_network_that_it_makes() -> None:
    compose = (_DEPLOY / "compose.yaml").read_text("utf-8")

    (trusted,) = re.findall(r"BRIDGE_TRUSTED_PROXIES: (\S+)", compose)
    (subnet,) = re.findall(r"subnet: (\S+)", compose)
    assert trusted == subnet
    assert "BRIDGE_UPSTREAM: bridge:8080" in compose
    assert "./Caddyfile:" in compose


def _exit_code(image: Image) -> int:
    command = shlex.join(image.health_check)
    return subprocess.run(["sh", "-c", command], env=image.variables(), timeout=60, check=False).returncode
