"""pipx, uv and uvx work in a checkout, with the lines of docs/operate.md; pip is a line of the Dockerfile."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from bridge_server.kernel.version import VERSION
from tests.deploy.pairing import ANSWERED, pair_over
from tests.support.command import server_from_shell
from tests.support.lazy_pip import LAZY_PIP
from tests.support.slow import slow

pytestmark = [slow, pytest.mark.timeout(900)]

_ROOT = Path(__file__).parents[2]
_SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "constraints.txt")
_SECONDS = 600


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is installed, so that nothing of the build is left in the project."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in _SOURCES:
        shutil.copy(_ROOT / name, copy)
    shutil.copytree(_ROOT / "bridge_server", copy / "bridge_server", ignore=shutil.ignore_patterns("__py*"))
    return copy


@pytest.fixture(scope="module")
def installers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of pipx and uv; the tests are skipped where the package index cannot be reached."""
    folder = tmp_path_factory.mktemp("installers")
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    finished = _run(programs / "python", "-m", "pip", "install", "--quiet", "pipx", "uv")
    if finished.returncode != 0:
        pytest.skip(f"the package index cannot be reached: {finished.stderr.strip().splitlines()[-1]}")
    return programs


async def test_pipx_installs_a_checkout(
    checkout: Path, installers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIPX_HOME", str(tmp_path / "pipx"))
    monkeypatch.setenv("PIPX_BIN_DIR", str(tmp_path / "bin"))
    _must(installers / "pipx", "install", ".", cwd=checkout)

    await _assert_it_serves(tmp_path / "bin" / "bridge-server", tmp_path)


async def test_uv_installs_a_checkout(
    checkout: Path, installers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, folder in (("UV_TOOL_DIR", "tools"), ("UV_TOOL_BIN_DIR", "bin"), ("UV_CACHE_DIR", "cache")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    _must(installers / "uv", "tool", "install", "--quiet", "--python", sys.executable, ".", cwd=checkout)

    await _assert_it_serves(tmp_path / "bin" / "bridge-server", tmp_path)


def test_uvx_runs_a_checkout_without_installing_it(
    checkout: Path, installers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    line = ("--quiet", "--python", sys.executable, "--from", ".", "bridge-server", "version")

    finished = _run(installers / "uvx", *line, cwd=checkout)

    assert finished.returncode == 0, finished.stderr
    assert VERSION in finished.stdout


async def _assert_it_serves(program: Path, folder: Path) -> None:
    with server_from_shell(folder, program=[program]) as server:
        assert await pair_over(server.url) == ANSWERED


def _must(*command: str | Path, cwd: Path) -> None:
    finished = _run(*command, cwd=cwd)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def _run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **LAZY_PIP}, stdin=subprocess.DEVNULL, capture_output=True,
        encoding="utf-8", timeout=_SECONDS, check=False,
    )  # fmt: skip
