"""Specifications of the console that Playwright runs in Debian's Chromium."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import orjson
import pytest

from tests.support.console_client import new_link
from tests.support.node_project import NodeProject
from tests.support.server import RunningServer

_CHROMIUM = Path("/usr/bin/chromium")
_CONFIGURATION = f"""
export default {{
  workers: 1,
  timeout: 30000,
  use: {{ launchOptions: {{ executablePath: '{_CHROMIUM}', args: ['--no-sandbox'] }} }},
}}
"""

needs_chromium = pytest.mark.skipif(
    not _CHROMIUM.exists(), reason="needs Chromium: `scripts/system-packages` installs it"
)


async def run_specification(
    folder: Path, server: RunningServer, specification: Path, tests: int, files: Mapping[str, str]
) -> None:
    """Run the specification, all of whose tests must pass. Each of them has a sign-in link of its own.

    `files` are put beside it.
    """
    project = NodeProject(folder, "@playwright/test", "playwright", "playwright-core", "axe-core")
    links = [f"{server.url}{await new_link(server)}" for _ in range(tests)]
    project.write(
        {
            "package.json": orjson.dumps({"type": "module"}).decode(),
            "playwright.config.js": _CONFIGURATION,
            specification.name: specification.read_text("utf-8"),
            "links": "\n".join(links),
            **files,
        }
    )
    variables = {
        "BRIDGE_URL": server.url,
        "CONSOLE_URL": f"{server.url}/console",
        "CONSOLE_LINKS": str(folder / "links"),
    }

    output = await asyncio.to_thread(
        project.run, project.program("@playwright/test"), "test", environment=variables
    )

    assert f"{tests} passed" in output
