"""The terminal of `dev`: the banner and a line for each request; and output that nobody reads."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import zxingcpp

from bridge_server.cli.dev import TrafficLines, dev_banner, qr_code, request_line
from bridge_server.cli.output import Output, Screen, screen_of
from bridge_server.cli.process import typed_command
from bridge_server.kernel.background import running
from bridge_server.web.traffic import Exchange, Recorded
from tests.dev.conftest import SECRET, DevServer
from tests.support.rows import each_row
from tests.support.waiting import eventually

FACTS = {
    "url": "http://127.0.0.1:8080", "v07_url": "http://127.0.0.1:8080/compat/v0.7",
    "rpc_url": "http://127.0.0.1:8080/rpc", "chain_id": 31337, "has_node": False, "policy": "approve",
    "project": {"id": "demo", "secret": "bsk_demo_x", "types": ["news", "alerts"]}, "admin_token": "an-admin",
    "accounts": [{"address": "0xf39F", "private_key": "0xac09"}], "data_dir": "/kept/here", "kept": False,
}  # fmt: skip


def test_a_terminal_has_colours_unless_they_are_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    monkeypatch.setenv("COLUMNS", "77")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with os.fdopen(ours), os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        for variable, value, has_colours in (
            ("TERM", "xterm", True), ("NO_COLOR", "1", False), ("NO_COLOR", "", True),
            ("TERM", "dumb", False),
        ):  # fmt: skip
            monkeypatch.setenv(variable, value)
            assert screen_of(terminal) == Screen(77, has_colours=has_colours, has_blocks=True), variable


def test_output_that_nobody_reads_any_more_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert screen_of(stream) == Screen()
        output = Output()
        output.write("dots… that this encoding does not have")
        assert os.read(reading, 100) == b"dots? that this encoding does not have\n"
        os.close(reading)
        for text in ("nobody", "reads this"):
            output.write(text)


def test_the_banner_names_everything() -> None:
    text = dev_banner(FACTS, Screen())

    for part in (
        *("for development: nothing is kept, everybody knows the keys", "/compat/v0.7", "/rpc"),
        *("chain 31337, approves by itself; no node", "bsk_demo_x", "an-admin", "types news, alerts"),
        *("  (0) 0xf39F  0xac09", "  relay     ws://127.0.0.1:8080 ", "  bridge    http://127.0.0.1:8080 "),
        "  docs      http://127.0.0.1:8080/docs/\n",
        "  inbox     http://127.0.0.1:8080/inbox/?project=demo\n",
    ):
        assert part in text
    for other in ("phone", "console", "\x1b"):
        assert other not in text
    head, _, _ = text.partition("  (0) ")
    assert max(map(len, head.splitlines())) <= 80


def test_the_banner_of_other_options() -> None:
    facts = {
        **FACTS, "kept": True, "policy": "queue", "has_node": True, "chain_id": None,
        "lan_url": "http://192.0.2.7:8080", "console_url": "http://127.0.0.1:8080/console",
        "accounts": [{"address": "0xf39F"}],
    }  # fmt: skip
    text = dev_banner(facts, Screen(has_blocks=True), console_link="http://127.0.0.1:8080/console/link")

    for part in (
        *("kept in /kept/here", "  phone     http://192.0.2.7:8080 ", "█"),
        "the node's chain, waits for: bridge-server approvals approve ID --data-dir /kept/here",
        "  console   http://127.0.0.1:8080/console/link\n",
    ):
        assert part in text
    assert text.count("--data-dir /kept/here") == 2
    assert "no node" not in text
    for screen in (Screen(), Screen(columns=20, has_blocks=True)):
        assert "█" not in dev_banner(facts, screen)


@each_row("url", ["http://192.0.2.7:8080", "http://[2001:db8::1234:5678:9abc:def0]:65535"])
def test_a_camera_reads_the_code_which_is_dark_on_light_where_there_are_colours(url: str) -> None:
    lines = qr_code(url, has_colours=False)
    rows = [[character in halves for character in line] for line in lines for halves in ("█▀", "█▄")]
    pixels = bytes(255 * is_light for row in rows for _ in range(4) for is_light in row for _ in range(4))
    picture = memoryview(pixels).cast("B", shape=(4 * len(rows), 4 * len(rows[0])))
    assert [code.text for code in zxingcpp.read_barcodes(picture)] == [url]
    coloured = qr_code(url, has_colours=True)
    assert all(line.startswith("\x1b[97;40m") and line.endswith("\x1b[0m") for line in coloured)


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


def line(screen: Screen | None = None, **fields: Any) -> str:
    exchange = {
        "who": "dapp", "method": "POST", "path": "/session/new", "route": "open-session",
        "status": 200, "milliseconds": 1.2, **fields,
    }  # fmt: skip
    recorded = Recorded(1, 1, 1_800_000_000_000, Exchange(**exchange))
    return request_line(recorded, screen or Screen())


def test_ids_are_short_a_wait_or_no_answer_is_said_and_no_text_steers_the_terminal() -> None:
    path = "/session/01a3185c-5d2f-7b5c-9f3e-1c2d3e4f5a6b/calls"
    text = line(method="GET", path=path, waited_seconds=1.94, milliseconds=1940.0)
    unanswered = line(status=0, milliseconds=3.0, summary="connection refused")
    assert re.match(r"[0-9]{2}:[0-9]{2}:[0-9]{2}  dapp    GET    /session/01a3185c…/calls +200", text)
    assert text.endswith("200  waited 1.9 s")
    assert "no answer  3 ms  connection refused" in unanswered
    assert line(Screen(columns=80)).index("200  1 ms") == 51  # a path leaves half
    assert line(Screen(columns=120)).index("200  1 ms") == 61
    assert line(summary="\x1b]0;owned\x07\nand a line of its own", path="/\x1b[2J").isprintable()


@each_row("screen", [Screen(), Screen(columns=120), Screen(columns=80), Screen(columns=40)])
def test_the_end_of_a_line_is_wrapped_and_never_cut(screen: Screen) -> None:
    words = [f"word-{number}" for number in range(30)]
    lines = line(screen, summary=" ".join(words)).split("\n")
    assert " ".join(lines).split()[-30:] == words
    assert all(len(each) <= (screen.columns or 1_000) for each in lines)
    assert all(each.startswith("      ") for each in lines[1:])


def test_a_notification_that_missed_somebody_and_a_request_that_waits_are_warnings() -> None:
    coloured = Screen(has_colours=True)
    for summary, is_warning in (
        ("2 sent", False), ("1 sent, 1 not subscribed", True), ("1 rate limited", True),
    ):  # fmt: skip
        text = line(coloured, who="backend", path="/demo/notify", route="notify", summary=summary)
        assert ("\x1b[33m" in text) == is_warning, summary
    assert "\x1b[31m" in line(coloured, status=500)
    assert "\x1b" not in line(status=500)

    said = "personal_sign: waits"
    exchange = Exchange("rpc", "approval", "657316b8-fc25", "approval", 0, 0.0, summary=said)
    waits = request_line(Recorded(1, 1, 1_800_000_000_000, exchange, is_waiting=True), coloured)
    remedy = r"waits  personal_sign: waits \(approvals approve 657316b8\)"
    assert re.search(rf"rpc +approval 657316b8-fc25 +{remedy}", waits)
    assert "\x1b[33m" in waits


@asynccontextmanager
async def written_lines(dev: DevServer) -> AsyncIterator[list[str]]:
    """The lines that the screen shows for the server's next requests."""
    written: list[str] = []
    assert dev.built.traffic is not None
    async with running(TrafficLines(dev.built.traffic, written.append, Screen()).run_forever()):
        await asyncio.sleep(0)
        yield written


async def test_each_request_has_its_line_also_after_a_reset(dev: DevServer) -> None:
    async with written_lines(dev) as written:

        async def shown(part: str) -> None:
            await eventually(lambda: any(part in text for text in written))

        await dev.open_session()
        await shown("POST   /session/new")
        await dev.control.reset()
        await dev.ask("GET", f"{dev.lan_url}/rpc")
        await shown("/rpc")
        notification = {"type": "news", "title": "Hello", "body": "World"}
        fields = {"notification": notification, "accounts": ["eip155:1:" + "0x" + "11" * 20]}
        await dev.ask("POST", f"{dev.url}/demo/notify", fields, Authorization=f"Bearer {SECRET}")
        await shown("ms  1 not subscribed")
        origin = "http://a.example"
        await dev.ask("POST", f"{dev.url}/rpc", {}, Origin=origin)
        await shown(f"{origin} may not call the wallet: --rpc-origins {origin}")


async def test_requests_that_came_too_fast_are_counted(dev: DevServer) -> None:
    async with written_lines(dev) as written:
        assert dev.built.traffic is not None
        for _ in range(2_500):
            dev.built.traffic.note(Exchange("dapp", "GET", "/x", "x", 200, 1.0))
        await eventually(lambda: bool(written))
    assert written[0].startswith("... 500 requests are not shown")
