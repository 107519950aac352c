"""What scripts/build makes starts without a checkout, and a dapp and a wallet meet over it."""

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from bridge_server.kernel.version import VERSION
from tests.deploy.pairing import ANSWERED, pair_over
from tests.support.command import server_from_shell
from tests.support.rows import each_row
from tests.support.slow import slow

pytestmark = [slow, pytest.mark.timeout(900)]

_ROOT = Path(__file__).parents[2]
_SECONDS = 600
_MADE_ALREADY = os.environ.get("BUILT_FILES")
"""A directory with the files of an earlier build."""


@pytest.fixture(scope="module", autouse=True)
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The .pyz unpacks its libraries at its first start, once for all tests."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SHIV_ROOT", str(tmp_path_factory.mktemp("shiv")))
        yield


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What scripts/build made; the tests are skipped where it cannot install its tools."""
    if _MADE_ALREADY is not None:
        return Path(_MADE_ALREADY)
    target = tmp_path_factory.mktemp("dist")
    finished = _run(_ROOT / "scripts" / "build", target)
    if finished.returncode != 0 and "No matching distribution found" in finished.stderr:
        pytest.skip("scripts/build cannot reach the package index")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return target


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
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    printed = _run(built / name, "version")
    assert (printed.returncode, printed.stderr, VERSION in printed.stdout) == (0, "", True)

    with server_from_shell(tmp_path, program=[built / name]) as server:
        assert await pair_over(server.url) == ANSWERED
        async with aiohttp.ClientSession(server.url) as reader:
            for path, status in (
                ("protocol", 200),
                ("api", 200),
                ("errors/not-found", 200),
                ("nowhere", 404),
            ):
                async with reader.get(f"/docs/{path}") as response:
                    assert (path, response.status) == (path, status)


@each_row("name", ["bridge-server.pyz", "bridge-server"])
def test_the_file_has_every_command(built: Path, name: str) -> None:
    assert _run(built / name, "keys", "vapid").returncode == 0
    unit = _run(built / name, "service", "install", "--print").stdout
    assert f"\nExecStart={built / name} serve --config " in unit
    assert "  serve " in _run(built / name, "--help").stdout


def test_the_source_distribution_has_what_the_wheel_has(built: Path, tmp_path: Path) -> None:
    with tarfile.open(built / f"bridge_server-{VERSION}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    wanted = {
        str(file.relative_to(_ROOT))
        for file in (_ROOT / "bridge_server").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert wanted - names == set()
    guides = {f"bridge_server/description/pages/{file.name}" for file in (_ROOT / "docs").glob("*.md")}
    assert guides - names == set()


def _run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=_SECONDS,
        check=False,
    )  # fmt: skip
