"""What scripts/build makes starts without a checkout, and a dapp and a wallet meet over it.

Also the other ways to install a checkout: pip, pipx and uv.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from bridge_server.version import VERSION
from tests.deploy.pairing import ANSWERED, pair_over
from tests.support.command import server_from_shell
from tests.support.slow import slow

pytestmark = [slow, pytest.mark.timeout(900)]

_ROOT = Path(__file__).parents[2]
_SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "constraints.txt")
_SECONDS = 600


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What scripts/build made; the tests are skipped where it cannot install its tools."""
    target = tmp_path_factory.mktemp("dist")
    finished = _run(_ROOT / "scripts" / "build", target)
    if finished.returncode != 0 and "No matching distribution found" in finished.stderr:
        pytest.skip("scripts/build cannot reach the package index")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return target


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is installed, so that nothing of the build is left in the project."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in _SOURCES:
        shutil.copy(_ROOT / name, copy)
    shutil.copytree(_ROOT / "bridge_server", copy / "bridge_server", ignore=shutil.ignore_patterns("__py*"))
    return copy


@pytest.fixture(scope="module")
def installers(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the programs pip, pipx and uv."""
    folder = tmp_path_factory.mktemp("installers")
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    finished = _run(programs / "python", "-m", "pip", "install", "--quiet", "pipx", "uv")
    assert finished.returncode == 0, finished.stderr
    return programs


def test_four_files_are_made(built: Path) -> None:
    assert sorted(file.name for file in built.iterdir()) == [
        "bridge-server",
        "bridge-server.pyz",
        f"bridge_server-{VERSION}-py3-none-any.whl",
        f"bridge_server-{VERSION}.tar.gz",
    ]


@pytest.mark.parametrize("name", ["bridge-server.pyz", "bridge-server"])
async def test_the_file_runs_a_server_over_which_a_dapp_and_a_wallet_meet(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("SHIV_ROOT", str(tmp_path / "shiv"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))

    with server_from_shell(tmp_path, program=[built / name]) as server:
        assert await pair_over(server.url) == ANSWERED

    assert VERSION in _run(built / name, "version").stdout


@pytest.mark.parametrize("name", ["bridge-server.pyz", "bridge-server"])
def test_the_file_plays_the_tour_and_has_every_command(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The tour signs, encrypts, stores, delivers and starts a server: it needs almost every library."""
    monkeypatch.setenv("SHIV_ROOT", str(tmp_path / "shiv"))

    tour = _run(built / name, "tour", "--without-node")

    assert (tour.returncode, tour.stderr) == (0, "")
    assert "# It has no node to send transactions to" in tour.stdout
    assert _run(built / name, "keys", "vapid").returncode == 0
    assert "Commands:" in _run(built / name, "--help").stdout


def test_the_source_distribution_has_what_the_wheel_has(built: Path, tmp_path: Path) -> None:
    with tarfile.open(built / f"bridge_server-{VERSION}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    wanted = {
        str(file.relative_to(_ROOT))
        for file in (_ROOT / "bridge_server").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert wanted - names == set()


async def test_pip_installs_a_checkout(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=True)
    _must(folder / "bin" / "python", "-m", "pip", "install", "--quiet", ".", cwd=checkout)

    await _assert_it_serves(folder / "bin" / "bridge-server", tmp_path)


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


async def _assert_it_serves(program: Path, folder: Path) -> None:
    with server_from_shell(folder, program=[program]) as server:
        assert await pair_over(server.url) == ANSWERED


def _must(*command: str | Path, cwd: Path) -> None:
    finished = _run(*command, cwd=cwd)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def _run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=_SECONDS,
        check=False,
    )  # fmt: skip
