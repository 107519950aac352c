"""The README and its pages are true: examples run, the reference has every setting."""

import asyncio
import re
import shutil
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from bridge_server.settings.settings import Settings
from tests.support.server import server_process
from tests.support.slow import slow

_ROOT = Path(__file__).parent.parent
_PAGES = [_ROOT / "README.md", *sorted((_ROOT / "docs").glob("*.md"))]
_README = "\n".join(page.read_text("utf-8") for page in _PAGES)
_REFERENCE = (_ROOT / "docs" / "reference.md").read_text("utf-8")
_PRINTED_URL = "http://127.0.0.1:8080"
_SECONDS = 240


async def _output_of(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(*command, cwd=_ROOT, stdout=PIPE)
    async with asyncio.timeout(_SECONDS):
        output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


@slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="the README's examples need curl")
async def test_the_examples_answer_what_the_readme_shows(tmp_path: Path) -> None:
    blocks = re.findall(r"```console\n(.*?)```", _README, re.DOTALL)
    lines = (
        "".join(blocks).replace("\n> ", "\0").splitlines()
    )  # a command goes on after the shell's second prompt
    commands = [line.removeprefix("$ ").replace("\0", "\n") for line in lines if line.startswith("$ ")]
    shown = [line for line in lines if not line.startswith("$ ")]

    with server_process(tmp_path / "data", "--dev-accounts") as server:
        script = "\n".join(f"{command}\necho" for command in commands).replace(_PRINTED_URL, server.url)
        script = script.replace(".venv/bin/", f"{Path(sys.executable).parent}/")
        printed = await _output_of("sh", "-euc", f"export BRIDGE_DATA_DIR={tmp_path / 'data'}\n{script}")

    assert len(commands) > 5
    assert [line for line in printed.splitlines() if line] == shown


def test_every_setting_is_in_the_reference_with_its_variable_and_meaning() -> None:
    text = " ".join(_REFERENCE.split())
    missing = [
        name
        for name, field in Settings.model_fields.items()
        if f"`BRIDGE_{name.upper()}` |" not in text or f"- `{name}`: {field.description}" not in text
    ]

    assert missing == []


def test_no_setting_is_in_the_tables_twice_and_every_row_is_one() -> None:
    section = _REFERENCE.partition("## Settings by room")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]

    assert [row.split("`")[1] for row in rows] == list(Settings.model_fields)


def test_no_page_has_two_versions_of_a_part() -> None:
    mark = re.compile(r"^(<{7}|={7}$|>{7})", re.MULTILINE)
    marked = [page.name for page in _PAGES if mark.search(page.read_text("utf-8"))]

    assert marked == []


def test_every_picture_is_there_and_made_by_the_script() -> None:
    pictures = set(re.findall(r"\]\((?:docs/)?(images/[\w-]+\.png)\)", _README))
    made = set(
        re.findall(
            r"^  '?([\w-]+)'?: \{ path:", (_ROOT / "scripts" / "screenshots.mjs").read_text(), re.MULTILINE
        )
    )

    assert {f"images/{path.name}" for path in (_ROOT / "docs" / "images").iterdir()} == pictures
    assert {Path(picture).stem for picture in pictures} <= made
