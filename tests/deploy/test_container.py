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
# As this machine can make an image: no user is added, and files belong to nobody else.
_PLAYED = {"useradd": ":", "install": 'for last; do :; done; mkdir -m 700 "$last"'}


class Image:
    """The files that the lines of a Dockerfile make, in a directory."""

    def __init__(self, root: Path, dockerfile: str) -> None:
        self.root = root
        self.environment: dict[str, str] = {}
        self.commands: dict[str, list[str]] = {}
        for line in dockerfile.replace("\\\n", " ").splitlines():
            word, _, rest = line.partition(" ")
            if word in ("ENTRYPOINT", "CMD", "HEALTHCHECK"):
                self.commands[word] = json.loads(rest.rpartition("CMD ")[2])
            elif word in ("USER", "VOLUME", "EXPOSE"):
                assert rest in ("10001", "/data", "8080")
            elif word and word != "#":
                {"FROM": self._from, "COPY": self._copy, "RUN": self._run, "ENV": self._env}[word](rest)

    def variables(self) -> dict[str, str]:
        """The environment of the image's programs."""
        return {**environment_without_settings(), **self.environment}

    def health(self) -> int:
        """The exit code of the health check."""
        command = shlex.join(self.commands["HEALTHCHECK"])
        return subprocess.run(["sh", "-c", command], env=self.variables(), timeout=60, check=False).returncode

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
            ["sh", "-euc", self._here(rest)], env={**self.variables(), **played, **LAZY_PIP},
            capture_output=True, encoding="utf-8", timeout=_SECONDS, check=False,
        )  # fmt: skip
        assert finished.returncode == 0, rest + finished.stdout + finished.stderr

    def _env(self, rest: str) -> None:
        name, _, value = rest.partition("=")
        self.environment[name] = self._here(value.replace("$PATH", os.environ["PATH"]))

    def _here(self, text: str) -> str:
        return _DIRECTORIES.sub(f"{self.root}/", text)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    played = tmp_path / "image" / "played"
    played.mkdir(parents=True)
    for name, script in _PLAYED.items():
        (played / name).write_text(f"#!/bin/sh\n{script}\n")
        (played / name).chmod(0o755)
    return Image(played.parent, (_DEPLOY / "Dockerfile").read_text("utf-8"))


@slow
@pytest.mark.timeout(_SECONDS)
async def test_the_dockerfile_makes_a_server_with_a_health_check(image: Image, tmp_path: Path) -> None:
    data = image.environment["BRIDGE_DATA_DIR"]
    program = [str(image.root / "opt" / "bridge-server" / "bin" / image.commands["ENTRYPOINT"][0])]
    assert image.commands["CMD"] == ["serve"]
    assert image.environment["BRIDGE_HOST"] == "0.0.0.0"

    with server_from_shell(
        tmp_path, "--data-dir", data, program=program, environment=image.environment
    ) as server:
        assert await pair_over(server.url) == ANSWERED
        healthy = image.health()
    assert (healthy, image.health()) == (0, 1)
    assert (image.root / "data" / "bridge.sqlite3").exists()


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
