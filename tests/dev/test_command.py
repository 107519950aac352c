"""`bridge-server dev` as its users start it, and as docs/quickstart.md says it.

White-box: a machine without a network is only pretended.
"""

import re
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from click import Option
from click.testing import CliRunner

from bridge_server.cli import dev as module
from bridge_server.cli.dev import dev_command
from bridge_server.cli.process import lan_address
from bridge_server.kit.testing.server import environment_without_settings, facts_once_ready
from tests.support.node_project import in_browser, run_specification
from tests.support.programs import folder_of_command, fork_server
from tests.support.waiting import until

_PATIENCE_SECONDS = 60.0
FIRST = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
FIRST_KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
PAGE = (Path(__file__).parents[2] / "docs" / "quickstart.md").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Dev:
    """A process that runs it."""

    process: subprocess.Popen[bytes]
    facts: dict[str, Any]
    folder: Path

    def printed(self) -> str:
        return (self.folder / "out").read_text("utf-8")

    def stop(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(_PATIENCE_SECONDS)


@contextmanager
def running(
    folder: Path, *arguments: str | Path, environment: Mapping[str, str] | None = None, command: str = "dev"
) -> Iterator[Dev]:
    """Run it on a free port; temporary files go into the folder."""
    (folder / "tmp").mkdir(exist_ok=True)
    ready, errors = folder / "ready.json", folder / "err"
    ready.unlink(missing_ok=True)  # a killed process leaves it
    words = [command, "--port", "0", "--ready-file", str(ready), *map(str, arguments)]
    variables = {**environment_without_settings(), "TMPDIR": str(folder / "tmp"), **(environment or {})}
    with (folder / "out").open("wb") as out, errors.open("wb") as err:
        process = fork_server().start(words, variables, err, out)
    try:
        yield Dev(process, facts_once_ready(process, ready, errors), folder)
    finally:
        process.kill()
        process.wait(_PATIENCE_SECONDS)


def until_printed(dev: Dev, part: str) -> None:
    until(lambda: part in dev.printed(), dev.printed)


def curl(url: str, *arguments: str) -> str:
    command = ["curl", "--silent", *arguments, url]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def ask(url: str, *arguments: str) -> Any:
    return orjson.loads(curl(url, *arguments))


def status(url: str) -> str:
    return curl(url, "--output", "/dev/null", "--write-out", "%{http_code}")


def of_demo(dev: Dev, path: str = "") -> Any:
    """The project that is always there, as the operator sees it."""
    token = f"Authorization: Bearer {dev.facts['admin_token']}"
    return ask(f"{dev.facts['url']}/admin/projects/demo{path}", "-H", token)


def test_dev_prints_its_parts_and_leaves_nothing_but_what_it_is_told_to_keep(tmp_path: Path) -> None:
    out = tmp_path / "dev.json"
    lan = ["--lan"] if lan_address() is not None else []
    with running(tmp_path, "--config-out", out, "--keep", tmp_path / "kept", *lan) as dev:
        facts = orjson.loads(out.read_bytes())
        assert facts == {"made_by": "bridge-server dev", **dev.facts}
        for file in (out, tmp_path / "ready.json"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert facts["accounts"][0] == {"address": FIRST, "private_key": FIRST_KEY}
        assert (facts["chain_id"], facts["policy"]) == (31337, "approve")
        assert ("lan_url" in facts) == bool(lan)
        text = dev.printed()
        secret, admin_token = facts["project"]["secret"], facts["admin_token"]
        for shown in (facts["url"], facts["v07_url"], secret, admin_token, f"(0) {FIRST}  {FIRST_KEY}"):
            assert shown in text
        assert "\x1b" not in text
        assert of_demo(dev)["subscribers"] == 1  # account 0
        assert [each["title"] for each in of_demo(dev, "/notifications")["notifications"]] == ["Welcome"]
        ask(f"{facts['url']}/session/new", "-X", "POST")
        until_printed(dev, "dapp    POST   /session/new ")
        assert dev.stop(signal.SIGTERM) == 0

    assert not out.exists()
    with running(tmp_path, "--keep", tmp_path / "kept", "--policy", "queue") as dev:
        assert (dev.facts["project"]["secret"], dev.facts["policy"]) == (secret, "queue")
        assert dev.facts["admin_token"] != admin_token
        assert len(of_demo(dev, "/notifications")["notifications"]) == 1
        assert dev.stop(signal.SIGINT) == 0


def links(dev: Dev) -> dict[str, str]:
    """The URLs of the banner by the names of their lines, once it is printed."""
    until_printed(dev, "  stop ")
    return dict(re.findall(r"^  (\S+) +((?:http|ws)://\S+)", dev.printed(), re.MULTILINE))


def test_each_link_of_the_banner_works_whatever_is_set_for_a_real_server(tmp_path: Path) -> None:
    real = {"BRIDGE_HOST": "0.0.0.0", "BRIDGE_DATA_DIR": str(tmp_path / "real"), "BRIDGE_APPROVE": "queue"}
    with running(tmp_path, environment=real) as dev:
        shown = links(dev)
        answering = (shown["docs"], shown["inbox"], shown["bridge"], f"{shown['0.7']}/hello")
        assert [status(url) for url in answering] == ["200"] * 4
        assert [status(shown["console"]) for _ in range(2)] == ["303", "410"]
        assert shown["relay"] == shown["bridge"].replace("http", "ws")
        assert (dev.facts["url"][:17], dev.facts["policy"]) == ("http://127.0.0.1:", "approve")
        assert not (tmp_path / "real").exists()
        ask(f"{dev.facts['url']}/rpc", "-d", "{}", "-H", "Origin: http://a.example")
        until_printed(dev, "http://a.example may not call the wallet: --rpc-origins http://a.example")
        assert dev.stop(signal.SIGTERM) == 0

    assert "a.example" not in (tmp_path / "err").read_text()


def test_the_demo_has_notifications_and_sessions_and_opens_the_console(tmp_path: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.partial && mv {opened}.partial {opened}\n')
    browser.chmod(0o755)
    environment = {"BROWSER": str(browser), "BRIDGE_SLOW_REQUEST_SECONDS": "3600"}
    with running(tmp_path, environment=environment, command="demo") as dev:
        until(opened.exists, dev.printed)
        assert status(opened.read_text().strip()) == "303"
        until(lambda: dev.printed().count("personal_sign") >= 6, dev.printed)
        assert len(of_demo(dev, "/notifications")["notifications"]) == 4
        assert dev.stop(signal.SIGTERM) == 0

    lines = dev.printed().splitlines()
    assert any("/call/new" in line and "Demo Shop" in line for line in lines)
    assert sum(" GET    /?" in line and " 101 " in line for line in lines) >= 4
    assert (tmp_path / "err").read_text() == ""


def test_without_keep_the_folder_goes_after_a_crash_with_the_next_start(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    with running(tmp_path) as killed:
        killed.process.kill()
        killed.process.wait(_PATIENCE_SECONDS)
        (left,) = temporary.iterdir()
        assert Path(killed.facts["data_dir"]).exists()

    with running(tmp_path, "--open", environment={"BROWSER": "/bin/false", "PATH": "/nowhere"}) as dev:
        until_printed(dev, "there is no browser to open: use the link above")
        (own,) = temporary.iterdir()
        assert own != left
        assert dev.stop(signal.SIGTERM) == 0
    assert list(temporary.iterdir()) == []


def test_a_start_that_is_refused_says_what_to_do_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary, data, dev_file = tmp_path / "tmp", tmp_path / "data", tmp_path / "own" / "dev.json"
    for folder in (temporary, data, dev_file.parent):
        folder.mkdir()
    (data / "bridge.sqlite3").touch()
    dev_file.write_text("{}")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr(module, "lan_address", lambda: None)

    def refused(*arguments: str | Path, **environment: str) -> str:
        result = CliRunner().invoke(dev_command, [*map(str, arguments)], env=environment)
        assert result.exit_code == 2, result.output
        assert list(temporary.iterdir()) == []
        return str(result.output)

    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        text = refused("--port", str(port))
    assert f"cannot listen on 127.0.0.1 port {port}" in text
    assert "choose another with --port" in text

    assert "it has another server's data" in refused("--keep", data)
    assert [file.name for file in data.iterdir()] == ["bridge.sqlite3"]
    assert "dev.json cannot be read: remove it" in refused("--keep", dev_file.parent)
    assert "name another directory" in refused("--keep", dev_file / "below")
    assert "never put into the working directory" in refused("--keep", ".")
    assert "--lan: this machine is in no network" in refused("--lan")
    assert "--open: the console is off" in refused("--port", "0", "--open", "--set", "console=off")
    assert "--policy" in refused("--policy", "maybe")

    for assignment in ("host=0.0.0.0", "test=false", "data_dir=/x", "admin_token=x"):
        name = assignment.partition("=")[0]
        assert f"--set: bridge-server dev decides {name} itself" in refused("--set", assignment)
    keys = refused(BRIDGE_PRIVATE_KEYS=FIRST_KEY)
    assert "private_keys (environment BRIDGE_PRIVATE_KEYS): dev signs for every program" in keys
    assert FIRST_KEY not in keys
    proxied = refused(BRIDGE_PUBLIC_URL="https://bridge.example")
    assert "public_url says that others than this machine come through a proxy" in proxied


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page's lines need curl")
def test_the_lines_for_programs_run(tmp_path: Path) -> None:
    (script,) = re.findall(r"```sh\n(bridge-server dev .*?)```", PAGE, re.DOTALL)
    folder = tmp_path / "folder"
    folder.mkdir()
    path = f"{folder_of_command(tmp_path)}:/usr/bin:/bin"
    environment = {**environment_without_settings(), "PATH": path, "TMPDIR": str(folder)}
    options: dict[str, Any] = {"cwd": folder, "env": environment, "timeout": _PATIENCE_SECONDS}
    command = ["sh", "-euc", f"{script}wait"]
    finished = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, **options)

    assert finished.returncode == 0, finished.stderr
    assert "Hello World, this is Bridge Server" in finished.stdout
    assert [file.name for file in folder.iterdir()] == ["dev.log"]


def test_every_option_is_on_the_page() -> None:
    options = [each.opts[0] for each in dev_command.params if isinstance(each, Option)]
    assert [option for option in options if option not in PAGE and option != "--stop-with-parent"] == []


# The quickstart in Debian's Chromium: from the links of the banner to a notification.


@in_browser
def test_a_reader_of_the_quickstart_sees_a_notification(tmp_path: Path) -> None:
    (example,) = re.findall(r"```sh\n(curl .*?)```", PAGE, re.DOTALL)
    with running(tmp_path) as dev:
        shown = links(dev)
        variables = {
            "INBOX": shown["inbox"], "CONSOLE": shown["console"], "EXAMPLE": example, "URL": shown["bridge"],
            "SECRET": dev.facts["project"]["secret"],
        }  # fmt: skip
        specification = Path(__file__).parent / "browser" / "quickstart.spec.js"
        output = run_specification(tmp_path / "specification", specification, environment=variables)
    assert "2 passed" in output
