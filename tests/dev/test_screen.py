"""What standard output can show, and what becomes of it when nobody reads it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
import zxingcpp

from bridge_server.cli.dev.screen import dev_banner, qr_code
from bridge_server.cli.output import Output, Screen, screen_of
from bridge_server.cli.process import typed_command
from tests.support.rows import each_row

FACTS = {
    "url": "http://127.0.0.1:8080", "v07_url": "http://127.0.0.1:8080/compat/v0.7",
    "rpc_url": "http://127.0.0.1:8080/rpc", "chain_id": 31337, "has_node": False, "policy": "approve",
    "project": {"id": "demo", "secret": "bsk_demo_x", "types": ["news", "alerts"]}, "admin_token": "an-admin",
    "accounts": [{"address": "0xf39F", "private_key": "0xac09"}], "data_dir": "/kept/here", "kept": False,
}  # fmt: skip


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        yield stream
    os.close(ours)


def test_a_terminal_has_colours_unless_they_are_forbidden(
    terminal: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert screen_of(terminal) == Screen(77, has_colours=True, has_blocks=True)

    monkeypatch.setenv("NO_COLOR", "1")
    assert screen_of(terminal) == Screen(77, has_colours=False, has_blocks=True)

    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "dumb")
    assert not screen_of(terminal).has_colours


def test_a_pipe_has_lines_of_any_length_and_no_colours() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="ascii") as stream:
        assert screen_of(stream) == Screen()


def test_output_that_nobody_reads_any_more_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        output = Output()
        output.write("dots… that this encoding does not have")
        assert os.read(reading, 100) == b"dots? that this encoding does not have\n"
        os.close(reading)

        output.write("nobody")
        output.write("reads this")


def test_the_banner_names_everything() -> None:
    text = dev_banner(FACTS, Screen())

    assert "for development: nothing is kept, everybody knows the keys" in text
    for part in (
        "/compat/v0.7",
        "/rpc",
        "chain 31337, approves by itself; no node",
        "bsk_demo_x",
        "  relay     ws://127.0.0.1:8080 ",
        "  bridge    http://127.0.0.1:8080 ",
        "  docs      http://127.0.0.1:8080/docs/\n",
        "  inbox     http://127.0.0.1:8080/inbox/?project=demo\n",
    ):
        assert part in text
    head, _, _ = text.partition("  (0) ")
    assert max(map(len, head.splitlines())) <= 80
    assert "an-admin" in text
    assert "types news, alerts" in text
    assert "  (0) 0xf39F  0xac09" in text
    assert "phone" not in text
    assert "console" not in text
    assert "\x1b" not in text


def test_the_banner_of_other_options() -> None:
    facts = {
        **FACTS, "kept": True, "policy": "queue", "has_node": True, "chain_id": None,
        "lan_url": "http://192.0.2.7:8080", "console_url": "http://127.0.0.1:8080/console",
        "accounts": [{"address": "0xf39F"}],
    }  # fmt: skip
    text = dev_banner(facts, Screen(has_blocks=True), console_link="http://127.0.0.1:8080/console/link")

    assert "kept in /kept/here" in text
    assert "the node's chain, waits for: bridge-server approvals --data-dir /kept/here" in text
    assert "no node" not in text
    assert "  phone     http://192.0.2.7:8080 " in text
    assert "  console   http://127.0.0.1:8080/console/link\n" in text
    assert text.count("--data-dir /kept/here") == 2
    assert "█" in text
    assert "█" not in dev_banner(facts, Screen())
    assert "█" not in dev_banner(facts, Screen(columns=20, has_blocks=True))


def test_the_code_is_dark_on_light_where_there_are_colours() -> None:
    lines = qr_code("http://192.0.2.7:8080", has_colours=True)

    assert all(line.startswith("\x1b[97;40m") and line.endswith("\x1b[0m") for line in lines)


@each_row("url", ["http://192.0.2.7:8080", "http://[2001:db8::1234:5678:9abc:def0]:65535"])
def test_a_camera_reads_the_code(url: str) -> None:
    lines = qr_code(url, has_colours=False)
    rows = [[character in halves for character in line] for line in lines for halves in ("█▀", "█▄")]
    pixels = bytes(255 * is_light for row in rows for _ in range(4) for is_light in row for _ in range(4))
    picture = memoryview(pixels).cast("B", shape=(4 * len(rows), 4 * len(rows[0])))

    assert [code.text for code in zxingcpp.read_barcodes(picture)] == [url]


def test_the_banner_names_the_command_as_it_is_typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = Path(sys.executable).parent / "bridge-server"
    monkeypatch.setattr(sys, "argv", [str(own)])
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(own.parents[2])
    from_the_checkout = typed_command()
    monkeypatch.chdir(tmp_path)
    from_elsewhere = typed_command()
    monkeypatch.setenv("PATH", str(own.parent))

    assert from_the_checkout == f"{own.parents[1].name}/bin/bridge-server"
    assert (from_elsewhere, typed_command()) == (str(own), "bridge-server")
    banner = dev_banner(FACTS, Screen(), "bin/bridge-server")
    assert "  commands  bin/bridge-server COMMAND --data-dir /kept/here\n" in banner
