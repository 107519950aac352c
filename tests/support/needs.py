"""Marks of what a test needs, and where it is: minutes, Chromium, Node.js and its packages, pip."""

import asyncio
import os
import shutil
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
import pytest

SLOW = "SLOW_TESTS" in os.environ
"""Whether the tests may take their time."""

slow = pytest.mark.skipif(not SLOW, reason="slow: `scripts/test --all` runs it")


# Debian's Chromium without windows, and the configuration with which Playwright runs it.

CHROMIUM = Path("/usr/bin/chromium-headless-shell")

CONFIGURATION = f"""
export default {{
  workers: 1,
  timeout: 180000,
  expect: {{ timeout: 30000 }},
  use: {{
    launchOptions: {{ executablePath: '{CHROMIUM}', args: ['--no-sandbox', '--in-process-gpu'] }},
    permissions: ['local-network-access'], // a page that this machine does not serve may reach the server
  }},
}}
"""

needs_chromium = pytest.mark.skipif(
    not CHROMIUM.exists(), reason="needs Chromium: `scripts/system-packages` installs it"
)


# Programs for Node.js: where `scripts/test --all` installs them, marks of tests that need them, and runs.

PACKAGES = Path(__file__).parent.parent / "node"
_MODULES = PACKAGES / "node_modules"


def _needs(module: str, what: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not SLOW or shutil.which("node") is None or not (_MODULES / module).exists(),
        reason=f"needs Node.js and {what} of tests/node: `scripts/test --all` installs it with npm",
    )


needs_node = _needs("walletconnect", "each package")
needs_anvil = _needs(".bin/anvil", "the anvil package")
needs_test_runners = _needs("vitest", "the test runners")
needs_openapi_typescript = _needs("openapi-typescript", "openapi-typescript")
needs_node_alone = pytest.mark.skipif(
    not SLOW or shutil.which("node") is None, reason="needs Node.js 20 or later: `scripts/test --all` runs it"
)


@asynccontextmanager
async def node_peers(script: str, **orders: Any) -> AsyncIterator[asyncio.StreamReader]:
    """The lines of a script of tests/node, which is ended on leaving."""
    arguments, longest_line = ("node", PACKAGES / script, orjson.dumps(orders).decode()), 2**20
    process = await asyncio.create_subprocess_exec(*arguments, stdout=PIPE, limit=longest_line)
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


# What pip installs is compiled when it is imported: compiling all of it costs more than the test.

LAZY_PIP = {"PIP_COMPILE": "0"}
"""Environment variables of a test that installs packages."""


def with_present_pip(folder: Path) -> dict[str, str]:
    """With these variables pip of a new environment is the tests' own: Python's takes twice as long."""
    found = find_spec("pip")
    assert found is not None
    assert found.origin is not None
    modules = folder / "modules"
    modules.mkdir()
    (modules / "pip").symlink_to(Path(found.origin).parent, target_is_directory=True)
    return {**LAZY_PIP, "PYTHONPATH": str(modules)}
