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
    links = [f"{server.url}{await new_link(server)}" for _ in range(_MOST_TESTS)]
    project = _project(folder, specification, {**files, "links": "\n".join(links)})
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


def _project(folder: Path, specification: Path, files: Mapping[str, str]) -> NodeProject:
    project = NodeProject(folder, "@playwright/test", "playwright", "playwright-core", "axe-core")
    package = orjson.dumps({"type": "module"}).decode()
    project.write({"package.json": package, "playwright.config.js": CONFIGURATION, **files})
    project.write({specification.name: specification.read_text("utf-8")})
    return project
