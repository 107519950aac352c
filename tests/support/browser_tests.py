"""Specifications that Playwright runs in Debian's Chromium."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.chromium import CONFIGURATION, needs_chromium
from tests.support.console_client import new_link
from tests.support.node_packages import needs_test_runners
from tests.support.node_project import NodeProject
from tests.support.server import RunningServer
from tests.support.slow import slow

_MOST_TESTS = 20
_RUN_SECONDS = 540.0
_PAGE_CHECK = Path(__file__).parent / "page_check.js"
_CONSOLE_WINDOW = Path(__file__).parents[1] / "console" / "browser" / "window.js"

BROWSER_MARKS = [slow, needs_chromium, needs_test_runners, pytest.mark.timeout(600)]
"""The marks of a module whose tests run a whole specification, dozens of steps, beside other workers."""


def run_specification(
    folder: Path,
    *specifications: Path,
    files: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run the specifications in this folder, with `files` beside them. All of their tests must pass.

    Returns what Playwright prints.
    """
    project = NodeProject(folder, "@playwright/test", "playwright", "playwright-core", "axe-core")
    project.write({"playwright.config.js": CONFIGURATION, **(files or {})})
    project.write({each.name: each.read_text("utf-8") for each in (_PAGE_CHECK, *specifications)})
    return project.run(
        project.program("@playwright/test"), "test", environment=environment, within_seconds=_RUN_SECONDS
    )


async def run_console_specification(
    folder: Path,
    server: RunningServer,
    specification: Path,
    files: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a specification at the console of a server, with a sign-in link for each of its tests."""
    links = [f"{server.url}{await new_link(server)}" for _ in range(_MOST_TESTS)]
    beside = {"window.js": _CONSOLE_WINDOW.read_text("utf-8"), "links": "\n".join(links), **(files or {})}
    variables = {
        "BRIDGE_URL": server.url,
        "CONSOLE_URL": f"{server.url}/console",
        "CONSOLE_LINKS": str(folder / "links"),
        **(environment or {}),
    }
    return await asyncio.to_thread(
        run_specification, folder, specification, files=beside, environment=variables
    )
