"""The JavaScript package by its own tests, in Node and against this server."""

import os
import subprocess
from pathlib import Path

import orjson

from bridge_server.kernel.version import VERSION
from tests.support.node_packages import needs_node, needs_node_alone, needs_test_runners
from tests.support.node_project import PACKAGE, SERVER, NodeProject
from tests.support.rows import each_row

_SECONDS = 240.0
_TESTS = PACKAGE / "tests"
_PUBLISHED = _TESTS / "published-clients.test.js"
COMPILER_OPTIONS = {
    "strict": True,
    "noEmit": True,
    "module": "nodenext",
    "target": "es2022",
    "lib": ["es2023", "esnext.disposable", "dom"],
    "types": ["node"],
}


def passes(file: Path) -> None:
    """Run one file of tests of the package."""
    finished = subprocess.run(
        ["node", "--test", file],
        cwd=PACKAGE,
        env={**os.environ, "BRIDGE_SERVER_BIN": str(SERVER)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=_SECONDS,
        check=False,
    )

    assert finished.returncode == 0, finished.stdout


@needs_node_alone
@each_row("file", sorted({*_TESTS.glob("*.test.js")} - {_PUBLISHED}), ids=lambda file: file.stem)
def test_its_own_tests_pass(file: Path) -> None:
    passes(file)


@needs_node
def test_its_wallet_pairs_with_a_published_client() -> None:
    passes(_PUBLISHED)


def test_its_version_is_the_servers() -> None:
    description = orjson.loads((PACKAGE / "package.json").read_bytes())

    assert description["version"] == VERSION
    assert not description.get("dependencies")


@needs_test_runners
def test_its_types_fit_what_is_documented(tmp_path: Path) -> None:
    project = NodeProject(tmp_path, "typescript", "vitest", "@playwright/test", "@types/node")
    configuration = {"compilerOptions": COMPILER_OPTIONS, "files": ["types.ts"]}
    source = (PACKAGE / "tests" / "types.ts").read_text("utf-8")
    project.write({"tsconfig.json": orjson.dumps(configuration).decode(), "types.ts": source})

    project.run(str(tmp_path / "node_modules" / "typescript" / "bin" / "tsc"), "--project", ".")
