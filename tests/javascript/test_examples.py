"""The examples of docs/test.md pass with the real test runners, as they stand."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.javascript.pages import files_of, section
from tests.support.needs import needs_chromium, needs_test_runners, slow, with_present_pip
from tests.support.node_project import PACKAGE, ROOT, SERVER, NodeProject

_NODE_FILE = "session-test.js"
_SCAN = Path(__file__).parent / "scan"
_JEST_CONFIGURATION = """
export default {
  globalSetup: '@bridge-server/test/jest',
  globalTeardown: '@bridge-server/test/jest-teardown',
  globals: { bridgeOptions: { settings: { session_ttl: 60 } } },
  testEnvironment: 'node',
  testTimeout: 180_000,
}
"""
# The page's configuration, with time for a busy machine.
_PLAYWRIGHT_CONFIGURATION = """
import configuration from './playwright.config.js'
export default { ...configuration, workers: 1, timeout: 180_000, expect: { timeout: 60_000 } }
"""
_JEST_TEST = """
import { connectBridge } from '@bridge-server/test'

test('the server of the run has the settings of the configuration', async () => {
  const bridge = await connectBridge()
  const { sessionId } = await (await fetch(`${bridge.url}/session/new`, { method: 'POST' })).json()

  await bridge.clock.advance({ seconds: 61 })

  expect((await fetch(`${bridge.url}/session/${sessionId}`)).status).toBe(404)
  expect(bridge.accounts).toHaveLength(10)
})
"""


@needs_test_runners
def test_vitest_and_node_take_each_its_own_of_the_files_of_the_page(tmp_path: Path) -> None:
    project = NodeProject(tmp_path, "vitest", "@walletconnect/client")
    project.write(files_of("vitest"))

    by_vitest = project.run(project.program("vitest"), "run", "--testTimeout=180000", "--hookTimeout=180000")
    by_node = project.run("--test", "--test-reporter=tap")

    assert "3 passed" in by_vitest
    assert "1 passed" in by_vitest  # files
    assert "# tests 1\n# suites 0\n# pass 1\n" in by_node


@needs_test_runners
@needs_chromium
def test_specifications_for_playwright_pass(tmp_path: Path) -> None:
    """One server, one browser: the suite of docs/test.md, a QR code in a page, the injected provider."""
    project = NodeProject(tmp_path, "@playwright/test", "@walletconnect/client", "qrcode-generator")
    suite, injected = files_of("Playwright"), PACKAGE / "tests" / "injected.spec.js"
    others = {f"other-{file.name}": file.read_text("utf-8") for file in (*_SCAN.iterdir(), injected)}
    project.write({**suite, **others, "busy.config.js": _PLAYWRIGHT_CONFIGURATION})

    output = project.run(project.program("@playwright/test"), "test", "--config=busy.config.js")

    assert "7 passed" in output  # 1 of the page, 2 of the QR code, 4 of the provider


@needs_test_runners
def test_a_suite_for_jest_passes(tmp_path: Path) -> None:
    project = NodeProject(tmp_path, "jest")
    example = files_of("vitest")[_NODE_FILE]
    hooks = example.replace("@bridge-server/test/node-test", "@bridge-server/test/jest")
    hooks = hooks.replace("import { test } from 'node:test'\n", "")
    project.write({"jest.config.js": _JEST_CONFIGURATION, "hooks.test.js": hooks, "run.test.js": _JEST_TEST})

    output = project.run("--experimental-vm-modules", project.program("jest"))

    assert "2 passed, 2 total" in output


@slow
@needs_test_runners
@pytest.mark.timeout(900)
def test_the_page_says_how_to_install(tmp_path: Path) -> None:
    (commands,) = re.findall(r"```sh\n(.*?)```", section("vitest"), re.DOTALL)
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    (tmp_path / _NODE_FILE).write_text(files_of("vitest")[_NODE_FILE], "utf-8")
    script = commands.replace("/path/to/bridge-server", str(ROOT)) + f"node --test {_NODE_FILE}\n"
    environment = {name: value for name, value in os.environ.items() if name not in ("PATH", "VIRTUAL_ENV")}
    path = os.pathsep.join(
        folder for folder in os.environ["PATH"].split(os.pathsep) if not Path(folder, SERVER.name).exists()
    )

    finished = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path,
        env=environment | with_present_pip(tmp_path) | {"PATH": path},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
        timeout=800, check=False,
    )  # fmt: skip

    assert finished.returncode == 0, finished.stdout


def test_the_page_says_how_jest_is_set_up() -> None:
    text = section("vitest")

    assert all(each in text for each in ("'@bridge-server/test/jest'", "'@bridge-server/test/jest-teardown'"))
