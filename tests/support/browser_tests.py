"""Specifications of the console that Playwright runs in Debian's Chromium."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import orjson

from tests.support.chromium import CONFIGURATION
from tests.support.console_client import new_link
from tests.support.node_project import NodeProject
from tests.support.server import RunningServer

_MOST_TESTS = 20


async def run_specification(
    folder: Path, server: RunningServer, specification: Path, part: str, files: Mapping[str, str]
) -> None:
    """Run a part of the specification, such as 1/4 of it. All of its tests must pass.

    `files` are put beside it, and `links`, with a sign-in link for each test.
    """
    project = NodeProject(folder, "@playwright/test", "playwright", "playwright-core", "axe-core")
    links = [f"{server.url}{await new_link(server)}" for _ in range(_MOST_TESTS)]
    project.write(
        {
            "package.json": orjson.dumps({"type": "module"}).decode(),
            "playwright.config.js": CONFIGURATION,
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
        project.run,
        project.program("@playwright/test"),
        "test",
        "--fully-parallel",
        f"--shard={part}",
        environment=variables,
    )

    assert " passed" in output
