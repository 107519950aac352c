"""The two JavaScript packages, by their own tests and types, in Node and against this server."""

import os
import shutil
import subprocess
from pathlib import Path

import orjson
import pytest

from bridge_server.kernel.version import VERSION
from tests.support.needs import PACKAGES, needs_node, needs_node_alone, needs_test_runners
from tests.support.node_project import PACKAGE, ROOT, SERVER, NodeProject
from tests.support.programs import folder_of_command
from tests.support.rows import each_row

API_PACKAGE = ROOT / "javascript" / "api"
_SECONDS = 240.0
_CHECK_TYPES = Path(__file__).parent / "check_types.js"
_TESTS = PACKAGE / "tests"
_PUBLISHED = _TESTS / "published-clients.test.js"
_STARTING = _TESTS / "starting.test.js"
COMPILER_OPTIONS = {
    "strict": True,
    "noEmit": True,
    "skipDefaultLibCheck": True,  # those of TypeScript itself
    "module": "nodenext",
    "target": "es2022",
    "lib": ["es2023", "esnext.disposable", "dom"],
    "types": ["node"],
}


def run(*command: str | Path, cwd: Path, server: Path = SERVER) -> str:
    """The output of a command; an AssertionError with it if the command fails. Its tests start the server."""
    variables = {
        "BRIDGE_SERVER_BIN": str(server),
        "BRIDGE_TEST_PACKAGE": (PACKAGE / "source" / "index.js").as_uri(),
    }
    finished = subprocess.run(
        [*map(str, command)], cwd=cwd, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=_SECONDS, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout
    return finished.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program whose processes are forked."""
    return folder_of_command(tmp_path_factory.mktemp("server")) / SERVER.name


@needs_node_alone
def test_its_own_tests_pass(server: Path) -> None:
    files = sorted({*_TESTS.glob("*.test.js")} - {_PUBLISHED, _STARTING})

    run("node", "--test", *files, cwd=PACKAGE, server=server)


@needs_node_alone
def test_its_tests_of_processes_pass_with_the_program_itself() -> None:
    run("node", "--test", _STARTING, cwd=PACKAGE)


@needs_node
def test_its_wallet_pairs_with_a_published_client(server: Path) -> None:
    run("node", "--test", _PUBLISHED, cwd=PACKAGE, server=server)


@each_row("package", [PACKAGE, API_PACKAGE], ids=lambda package: package.name)
def test_its_version_is_the_servers_and_it_needs_nothing(package: Path) -> None:
    description = orjson.loads((package / "package.json").read_bytes())

    assert description["version"] == VERSION
    assert not description.get("dependencies")


@needs_test_runners
def test_its_types_fit_what_is_documented(tmp_path: Path) -> None:
    project = NodeProject(tmp_path, "typescript", "vitest", "@playwright/test", "@types/node")
    configuration = {"compilerOptions": COMPILER_OPTIONS, "files": ["types.ts"]}
    files = {path.name: path.read_text("utf-8") for path in (_TESTS / "types.ts", _CHECK_TYPES)}
    project.write({"tsconfig.json": orjson.dumps(configuration).decode(), **files})

    checked = project.run(_CHECK_TYPES.name)

    assert "/@bridge-server/test/source/index.d.ts" in checked


# The package @bridge-server/api, installed from its file as users install it, against this server.


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
def test_its_own_tests_pass_where_it_is_installed(project: Path, server: Path) -> None:
    shutil.copy(API_PACKAGE / "tests" / "notifier.test.js", project)

    output = run("node", "--test", "notifier.test.js", cwd=project, server=server)

    assert "# fail 0" in output
    assert sorted(path.name for path in (project / "node_modules" / "@bridge-server" / "api").iterdir()) == [
        "README.md",
        "package.json",
        "source",
    ]


@needs_test_runners
def test_its_types_fit_what_is_documented_where_it_is_installed(project: Path) -> None:
    shutil.copy(API_PACKAGE / "tests" / "types.ts", project)
    options = {**COMPILER_OPTIONS, "types": []}
    configuration = {"compilerOptions": options, "files": ["types.ts"]}
    (project / "tsconfig.json").write_bytes(orjson.dumps(configuration))

    run("node", PACKAGES / "node_modules" / "typescript" / "bin" / "tsc", "--project", ".", cwd=project)
