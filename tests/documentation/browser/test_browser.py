"""The pages at /docs/ in Debian's Chromium, by Playwright and axe-core."""

import asyncio
import subprocess
from pathlib import Path

from bridge_server.description.site import FOLDER, swagger_ui_files
from tests.support.node_project import BROWSER_MARKS, run_specification
from tests.support.server import running_server

_ROOT = Path(__file__).parents[3]
_SPECIFICATION = Path(__file__).parent / "docs.spec.js"
_TESTS = 9

pytestmark = BROWSER_MARKS


async def test_a_reader_uses_the_pages(tmp_path: Path) -> None:
    # Without npm's registry the page says how to get Swagger UI, and one test fewer runs.
    await asyncio.to_thread(subprocess.run, [_ROOT / "scripts" / "swagger_ui"], check=False)
    has_swagger_ui = bool(swagger_ui_files(FOLDER))
    async with running_server(tmp_path / "data", test=True) as server:
        variables = {"DOCS_URL": f"{server.url}/docs", "HAS_SWAGGER_UI": str(int(has_swagger_ui))}
        output = await asyncio.to_thread(run_specification, tmp_path, _SPECIFICATION, environment=variables)

    assert f"{_TESTS - (not has_swagger_ui)} passed" in output
