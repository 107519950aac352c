"""The package @bridge-server/api, installed from its file as users install it, against this server."""

import os
import shutil
import subprocess
from pathlib import Path

import orjson
import pytest

from bridge_server.kernel.version import VERSION
from tests.javascript.test_package import COMPILER_OPTIONS
from tests.support.node_packages import PACKAGES, needs_node_alone, needs_test_runners
from tests.support.node_project import PACKAGE as TEST_PACKAGE
from tests.support.node_project import ROOT, SERVER

API_PACKAGE = ROOT / "javascript" / "api"
_SECONDS = 240.0


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a command; an AssertionError with it if the command fails."""
    variables = {
        "BRIDGE_SERVER_BIN": str(SERVER),
        "BRIDGE_TEST_PACKAGE": (TEST_PACKAGE / "source" / "index.js").as_uri(),
    }
    finished = subprocess.run(
        [*map(str, command)], cwd=cwd, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=_SECONDS, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout
    return finished.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where the packed package is installed."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    tmp_path = tmp_path_factory.mktemp("project")
    run("npm", "pack", "--silent", "--pack-destination", tmp_path, cwd=API_PACKAGE)
    (packed,) = tmp_path.glob("*.tgz")
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    run("npm", "install", "--silent", "--offline", "--no-audit", "--no-fund", packed, cwd=tmp_path)
    return tmp_path


@needs_node_alone
def test_its_own_tests_pass_where_it_is_installed(project: Path) -> None:
    shutil.copy(API_PACKAGE / "tests" / "notifier.test.js", project)

    output = run("node", "--test", "notifier.test.js", cwd=project)

    assert "# fail 0" in output
    assert sorted(path.name for path in (project / "node_modules" / "@bridge-server" / "api").iterdir()) == [
        "README.md",
        "package.json",
        "source",
    ]


@needs_test_runners
def test_its_types_fit_what_is_documented(project: Path) -> None:
    shutil.copy(API_PACKAGE / "tests" / "types.ts", project)
    options = {**COMPILER_OPTIONS, "types": []}
    configuration = {"compilerOptions": options, "files": ["types.ts"]}
    (project / "tsconfig.json").write_bytes(orjson.dumps(configuration))

    run("node", PACKAGES / "node_modules" / "typescript" / "bin" / "tsc", "--project", ".", cwd=project)


def test_its_version_is_the_servers_and_it_needs_nothing() -> None:
    description = orjson.loads((API_PACKAGE / "package.json").read_bytes())

    assert description["version"] == VERSION
    assert not description.get("dependencies")
