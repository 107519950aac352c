"""A folder of a user's own tests in JavaScript, with the package of this project installed."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest

from tests.support.console_client import ConsoleClient
from tests.support.needs import CONFIGURATION, PACKAGES, needs_chromium, needs_test_runners, slow
from tests.support.programs import folder_of_command
from tests.support.server import RunningServer

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "javascript" / "test"
SERVER = Path(sys.executable).with_name("bridge-server")

_SECONDS = 240.0
Test = TypeVar("Test", bound=Callable[..., Any])


class NodeProject:
    """A folder with `node_modules` and packages of tests/node; its servers and wallets are forked."""

    def __init__(self, folder: Path, *packages: str) -> None:
        self.folder = folder
        self._server = folder_of_command(folder) / SERVER.name
        modules = folder / "node_modules"
        for name in packages:
            (modules / name).parent.mkdir(parents=True, exist_ok=True)
            (modules / name).symlink_to(PACKAGES / "node_modules" / name, target_is_directory=True)
        installed = modules / "@bridge-server" / "test"
        shutil.copytree(PACKAGE / "source", installed / "source")
        shutil.copy(PACKAGE / "package.json", installed)
        self.write({"package.json": '{"type": "module"}'})

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text, "utf-8")

    def run(
        self, *command: str, environment: Mapping[str, str] | None = None, within_seconds: float = _SECONDS
    ) -> str:
        """The output of a command of Node; an AssertionError with it if the command fails."""
        variables = {"BRIDGE_SERVER_BIN": str(self._server), "NO_COLOR": "1", "CI": "1"}
        finished = subprocess.run(
            ["node", *command], cwd=self.folder, env={**os.environ, **variables, **(environment or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
            timeout=within_seconds, check=False,
        )  # fmt: skip
        assert finished.returncode == 0, finished.stdout
        return finished.stdout

    def program(self, package: str) -> str:
        folder = self.folder / "node_modules" / package
        programs = orjson.loads((folder / "package.json").read_bytes())["bin"]
        return str(folder / (programs if isinstance(programs, str) else next(iter(programs.values()))))


BROWSER_MARKS = [slow, needs_chromium, needs_test_runners, pytest.mark.timeout(1_200)]
"""The marks of a module whose tests run whole specifications, dozens of steps, beside other workers."""


def in_browser(test: Test) -> Test:
    for mark in BROWSER_MARKS:
        test = mark(test)
    return test


def run_specification(
    folder: Path,
    *specifications: Path,
    files: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """The output of Playwright for the specifications in this folder, beside `files`. All tests must pass."""
    project = NodeProject(folder, "@playwright/test", "playwright", "playwright-core", "axe-core")
    project.write({"playwright.config.js": CONFIGURATION, **(files or {})})
    page_check = Path(__file__).parent / "page_check.js"
    project.write({each.name: each.read_text("utf-8") for each in (page_check, *specifications)})
    variables = {"PW_DISABLE_TS_ESM": "1", **(environment or {})}  # Node reads the files without a compiler
    program = project.program("@playwright/test")
    return project.run(program, "test", environment=variables, within_seconds=1_080.0)


async def run_console_specifications(
    folder: Path,
    servers: Mapping[Path, RunningServer],
    files: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run specifications in one browser, each at the console of its server, in one session there."""
    facts = {}
    for specification, server in servers.items():
        browser = await ConsoleClient(server).sign_in()
        cookie, token = browser.cookie["Cookie"], server.test_token
        facts[specification.name] = {"url": server.url, "cookie": cookie, "testToken": token}
    window = (ROOT / "tests/console/browser/window.js").read_text("utf-8")
    beside = {"window.js": window, "servers.json": orjson.dumps(facts).decode(), **(files or {})}
    return await asyncio.to_thread(run_specification, folder, *servers, files=beside, environment=environment)
