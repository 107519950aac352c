"""The documentation as a whole: it can be reached, its links work, and readers find what they look for."""

import asyncio
import re
import shutil
import tomllib
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bridge_server.assembly.application import house
from bridge_server.assembly.foundation import lay_foundation
from bridge_server.assembly.system_routes import MEANINGS
from bridge_server.cli.commands import commands
from bridge_server.settings.settings import Settings
from tests.support.needs import slow
from tests.support.programs import folder_of_command, output_of_program
from tests.support.rows import each_row
from tests.support.server import server_process

_ROOT = Path(__file__).parents[2]
_README = _ROOT / "README.md"
_PAGES = [_README, *sorted((_ROOT / "docs").rglob("*.md"))]
_OTHERS = [_ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
_WIDTH = 120

_DOORS = ("connect", "connect", "test", "operate", "notify")
_SEARCHED = """
    pip install | pipx | uvx | uv tool | docker | compose | Kubernetes | systemd | systemctl | pytest |
    vitest | playwright | GitHub Actions | Jest | backup | restore | upgrade | TLS | Caddy | nginx |
    proxy | Grafana | Prometheus | metrics | license | changelog | sizing | memory | MetaMask | wagmi |
    viem | ethers | EIP-1193 | EIP-6963 | troubleshoot | reload | SIGHUP | Windows | macOS | rate limit
    | 429 | idempotency key | retry | environment variable | long poll | webhook | CORS | CAIP-10 |
    EIP-712 | EIP-4361 | nonce | gas | QR code | push | FCM | APNs | Web Push | VAPID | WebSocket |
    server-sent events | JSON-RPC | problem+json | bearer token | secret | signature | SQLite |
    migration | address in use | database is full | health check | log | doctor | sign in | subscribe |
    0.7 | 1.x | 2.x | ERC-1328 | OpenAPI
"""
"""The words under which readers look, whatever a page's own word for the thing is."""


def _without_code(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^\s*```.*?^\s*```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def _links(page: Path) -> list[str]:
    """The targets of the page's links and pictures that are not at another server."""
    targets = re.findall(r"\]\(([^)\s]+)\)", _without_code(page))
    return [target for target in targets if ":" not in target]


def _anchors(page: Path) -> set[str]:
    """The anchors of the page's headings, as GitHub makes them."""
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", _without_code(page), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = plain = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
        number = 0
        while anchor in anchors:
            number += 1
            anchor = f"{plain}-{number}"
        anchors.add(anchor)
    return anchors


def _dead(page: Path) -> Iterator[str]:
    for link in _links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.is_file() or (anchor and anchor not in _anchors(target)):
            yield link


@each_row("page", [*_PAGES, *_OTHERS], ids=lambda page: page.name)
def test_every_link_and_anchor_leads_somewhere(page: Path) -> None:
    assert list(_dead(page)) == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), [_README]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md" and page.is_file():
            reached.add(page)
            waiting += [(page.parent / link.partition("#")[0]).resolve() for link in _links(page)]

    assert [page.name for page in [*_PAGES, *_OTHERS] if page.resolve() not in reached] == []


@each_row("page", [*_PAGES, *_OTHERS], ids=lambda page: page.name)
def test_no_line_is_too_long(page: Path) -> None:
    lines = enumerate(page.read_text("utf-8").splitlines(), 1)

    assert [number for number, line in lines if len(line) > _WIDTH] == []


def test_the_first_words_of_the_readme_sort_readers() -> None:
    first = _README.read_text("utf-8").partition("\n![")[0].replace("\n  ", " ").splitlines()
    doors = [line for line in first if line.startswith("- ")]

    assert [re.findall(r"\]\(docs/(\w+)\.md[#\w-]*\)", line) for line in doors] == [[page] for page in _DOORS]
    assert all(line.startswith("- **I ") for line in doors)


@each_row("words", [words.strip() for words in _SEARCHED.split("|")])
def test_a_reader_finds_what_they_search_for(words: str) -> None:
    text = " ".join(" ".join(page.read_text("utf-8") for page in [*_PAGES, *_OTHERS]).lower().split())

    assert words.lower() in text


def test_every_command_that_a_page_names_exists() -> None:
    text = "\n".join(page.read_text("utf-8") for page in _PAGES)
    named = set(
        re.findall(r"(?:`|^|/bin/|\$ )bridge-server ((?:[a-z][a-z-]+)(?: [a-z][a-z-]+)*)", text, re.MULTILINE)
    )

    assert len(named) > 20
    assert [words for words in sorted(named) if not _is_command(words.split())] == []


def _is_command(words: list[str]) -> bool:
    command: click.Command | None = commands
    context = click.Context(commands)
    while isinstance(command, click.Group) and words:
        command = command.get_command(context, words.pop(0))
    return command is not None


@each_row("script", ["reference.py", "pictures.py"])
def test_generated_pages_are_up_to_date(script: str) -> None:
    path = _ROOT / "scripts" / script

    output_of_program(
        f"import runpy, sys\n"
        f"sys.argv = [{str(path)!r}, '--check']\n"
        f"sys.path.insert(0, {str(path.parent)!r})\n"
        f"runpy.run_path({str(path)!r}, run_name='__main__')"
    )


def test_every_drawing_has_a_text_and_stands_on_a_page() -> None:
    folder = _ROOT / "docs" / "pictures"
    drawn = {path.stem for path in folder.glob("*.svg")}
    shown = {Path(link).stem for page in _PAGES for link in _links(page) if link.endswith(".svg")}

    assert {path.stem for path in folder.glob("*.toml")} == drawn == shown


def test_settings_in_examples_are_valid(tmp_path: Path) -> None:
    pages = ("reference.md", "operate.md", "processes.md")
    text = "\n".join((_ROOT / "docs" / name).read_text("utf-8") for name in pages)
    examples = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 3

    for example in examples:
        named = tomllib.loads(example)
        settings = Settings(data_dir=tmp_path, **named)

        assert settings.model_fields_set >= named.keys()


def test_the_configuration_of_caddy_on_the_page_is_that_of_the_file() -> None:
    (shown,) = re.findall(r"```\n(bridge\.example\.org \{.*?)```", _operating(), re.DOTALL)
    file = (_ROOT / "deploy" / "Caddyfile").read_text("utf-8")
    lines = [line for line in file.splitlines() if line and not line.startswith("#")]

    assert [re.sub(r"\{\$\w+:([^}]*)\}", r"\1", line) for line in lines] == shown.splitlines()


def _operating() -> str:
    return (_ROOT / "docs" / "operate.md").read_text("utf-8")


def test_the_architecture_names_every_folder() -> None:
    page = (_ROOT / "docs" / "architecture.md").read_text("utf-8")
    folders = {path.parent.name for path in (_ROOT / "bridge_server").glob("*/__init__.py")}

    assert {folder for folder in folders if f"`{folder}/`" not in page} == set()


# The README and its pages are true: examples run, the reference has every setting.

_TEXT = "\n".join(page.read_text("utf-8") for page in _PAGES)
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
    blocks = re.findall(r"```console\n(.*?)```", _TEXT, re.DOTALL)
    lines = (
        "".join(blocks).replace("\n> ", "\0").splitlines()
    )  # a command goes on after the shell's second prompt
    commands = [line.removeprefix("$ ").replace("\0", "\n") for line in lines if line.startswith("$ ")]
    shown = [line for line in lines if not line.startswith("$ ")]

    with server_process(tmp_path / "data", "--dev-accounts") as server:
        script = "\n".join(f"{command}\necho" for command in commands).replace(_PRINTED_URL, server.url)
        script = script.replace(".venv/bin/", f"{folder_of_command(tmp_path)}/")
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
    section = _REFERENCE.partition("## Settings by subject")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]

    assert [row.split("`")[1] for row in rows] == list(Settings.model_fields)


def test_no_page_has_two_versions_of_a_part() -> None:
    mark = re.compile(r"^(<{7}|={7}$|>{7})", re.MULTILINE)
    marked = [page.name for page in _PAGES if mark.search(page.read_text("utf-8"))]

    assert marked == []


def test_every_picture_is_there_and_made_by_the_script() -> None:
    pictures = set(re.findall(r"\]\((?:docs/)?(images/[\w-]+\.png)\)", _TEXT))
    made = set(
        re.findall(
            r"^  '?([\w-]+)'?: \{ path:", (_ROOT / "scripts" / "screenshots.mjs").read_text(), re.MULTILINE
        )
    )

    assert {f"images/{path.name}" for path in (_ROOT / "docs" / "images").iterdir()} == pictures
    assert {Path(picture).stem for picture in pictures} <= made


# The protocol documentation lists every route that a server can have.

PAGES = ("protocol.md", "admin.md")
"""The protocol page leaves the list of the admin API's routes to the other."""

TOKEN = "t" * 40
GENERATION_07 = "/compat/v0.7"
"""The bridge's routes in the dialect of generation 0.7: the documentation names only this prefix."""

PROJECT = "/admin/projects/{project_id}"
"""The documentation abbreviates this prefix as `...`."""


def nameless(path: str) -> str:
    """The path without the names and patterns of its parameters."""
    return re.sub(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", "{}", path)


def items(page: Path) -> list[str]:
    """The lines of a page; the lines of one item of a list are one."""
    return page.read_text("utf-8").replace("\n  ", " ").splitlines()


def listed() -> set[tuple[str, str]]:
    """Each method with each path in the code spans of its line or item. A WebSocket is opened by GET."""
    found = set()
    for line in (line for page in PAGES for line in items(_ROOT / "docs" / page)):
        spans = " ".join(re.findall(r"`([^`]*)`", line))
        methods = re.findall(r"\b(GET|POST|PUT|DELETE)\b", spans) + ["GET"] * ("WebSocket" in line)
        paths = re.findall(r"(?:^|\s)(/[^\s?]*)", spans.replace("...", PROJECT))
        found |= {(method, nameless(path)) for method in methods for path in paths}
    return found


def test_every_route_is_documented(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path, admin_token=TOKEN, admin_wallet=True, metrics_token=TOKEN, rpc_token=TOKEN
    )
    rows = [row for room in house(lay_foundation(settings)) for row in room.routes]

    missing = {(row.method, nameless(row.path.removeprefix(GENERATION_07))) for row in rows} - listed()

    assert missing == set()


# The reference lists every metric, and the page for operators names commands that exist.

PAGE = (_ROOT / "docs" / "operate.md").read_text("utf-8")
REFERENCE = (_ROOT / "docs" / "reference.md").read_text("utf-8")
OTHERS = {
    "build_info",
    "http_requests",
    "http_request_seconds",
    "refused_requests",
    "outbox_oldest_due_seconds",
    "notifications",
    "push_attempts",
}
"""Figures that have labels, or that are read from the database."""


def test_the_metrics_of_the_page_are_those_of_the_server() -> None:
    section = REFERENCE.partition("## Metrics")[2].partition("\n## ")[0]

    named = {name.removesuffix("_total") for name in re.findall(r"`bridge_(\w+)`", section)}

    assert named == MEANINGS.keys() | OTHERS


def test_the_commands_of_the_page_exist() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("bridge-server ")]
    assert len(lines) >= 8

    for line in lines:
        words = line.split()[1:]
        command: click.Command | None = commands
        context = click.Context(commands)
        while isinstance(command, click.Group):
            command = command.get_command(context, words.pop(0))
        assert command is not None
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options
