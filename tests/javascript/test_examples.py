"""The examples of docs/testing.md pass with the real test runners, as they stand."""

import os
import shutil
from pathlib import Path

import pytest

from tests.javascript.pages import files_of
from tests.support.node_packages import needs_test_runners
from tests.support.node_project import NodeProject

_CHROMIUM = Path("/usr/bin/chromium")

needs_chromium = pytest.mark.skipif(
    not _CHROMIUM.exists(), reason="needs Chromium: `scripts/system-packages` installs it"
)


@needs_test_runners
def test_the_suite_for_vitest_passes(tmp_path: Path) -> None:
    project = NodeProject(tmp_path, "vitest", "@walletconnect/client")
    files = files_of("vitest")
    project.write({name: files[name] for name in ("vitest.config.js", "run.test.js", "dapp.test.js")})

    output = project.run(project.program("vitest"), "run")

    assert "5 passed" in output


@needs_test_runners
@needs_chromium
def test_the_suite_for_playwright_passes(tmp_path: Path) -> None:
    project = NodeProject(tmp_path, "@playwright/test", "@walletconnect/client", "qrcode-generator")
    project.write(files_of("Playwright"))

    output = project.run(project.program("@playwright/test"), "test")

    assert "3 passed" in output
