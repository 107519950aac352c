"""The lines on the terminal, one for each request."""

import asyncio
import re
from typing import Any

from bridge_server.cli.dev.screen import TrafficLines, request_line
from bridge_server.cli.output import Screen
from bridge_server.kernel.background import running
from bridge_server.web.traffic import Contents, Exchange, Recorded
from tests.dev.conftest import SECRET, DevServer
from tests.support.eventually import eventually
from tests.support.rows import each_row

PLAIN = Screen()
WIDE = Screen(columns=120)
NARROW = Screen(columns=40)
SESSION = "/session/01a3185c-5d2f-7b5c-9f3e-1c2d3e4f5a6b"


def line(screen: Screen = PLAIN, **fields: Any) -> str:
    exchange = {
        "who": "dapp", "method": "POST", "path": "/session/new", "route": "open-session",
        "status": 200, "milliseconds": 1.2, **fields,
    }  # fmt: skip
    return request_line(Recorded(1, 1, 1_800_000_000_000, Exchange(**exchange)), screen)


def test_a_line_says_who_asked_for_what_and_how_it_went() -> None:
    text = line(summary="session 01a3185c")

    assert re.match(r"[0-9]{2}:[0-9]{2}:[0-9]{2}  dapp    POST   /session/new  +200  1 ms  ", text)
    assert text.endswith("1 ms  session 01a3185c")


def test_ids_are_short_and_a_wait_is_said() -> None:
    text = line(method="GET", path=f"{SESSION}/calls", waited_seconds=1.94, milliseconds=1940.0)

    assert "GET    /session/01a3185c…/calls " in text
    assert text.endswith("200  waited 1.9 s")


def test_a_receiver_that_gave_no_answer() -> None:
    assert "no answer  3 ms  connection refused" in line(
        status=0, milliseconds=3.0, summary="connection refused"
    )


def test_a_page_that_may_not_call_the_wallet_is_answered_with_the_flag() -> None:
    sent = Contents({"Host": "localhost", "Origin": "http://a.example:3000"})
    text = line(
        who="page", path="/rpc", route="rpc", status=403, request=sent,
        summary="Web pages of 'http://a.example:3000' may not call the wallet. Allow them",
    )  # fmt: skip

    remedy = "http://a.example:3000 may not call the wallet: --rpc-origins http://a.example:3000"
    assert text.endswith(f"403  1 ms  {remedy}")


@each_row("screen", [PLAIN, WIDE, Screen(columns=80), NARROW])
def test_the_end_of_a_line_is_wrapped_and_never_cut(screen: Screen) -> None:
    words = [f"word-{number}" for number in range(30)]

    lines = line(screen, summary=" ".join(words)).split("\n")

    assert " ".join(lines).split()[-30:] == words
    assert all(len(each) <= (screen.columns or 1_000) for each in lines)
    assert all(each.startswith("      ") for each in lines[1:])


def test_of_80_columns_a_path_leaves_half() -> None:
    assert line(Screen(columns=80)).index("200  1 ms") == 51
    assert line(WIDE).index("200  1 ms") == 61


@each_row(
    ("summary", "is_warning"),
    [("2 sent", False), ("1 sent, 1 not subscribed", True), ("1 rate limited", True)],
)
def test_a_notification_that_missed_somebody_is_a_warning(summary: str, is_warning: bool) -> None:
    text = line(Screen(has_colours=True), who="backend", path="/demo/notify", route="notify", summary=summary)

    assert ("\x1b[33m" in text) == is_warning


def test_a_request_that_waits_for_a_person_is_shown_with_what_approves_it() -> None:
    exchange = Exchange(
        "rpc", "approval", "657316b8-fc25", "approval", 0, 0.0, summary="personal_sign: waits"
    )
    recorded = Recorded(1, 1, 1_800_000_000_000, exchange, is_waiting=True)

    text = request_line(recorded, Screen(has_colours=True))

    assert re.search(
        r"rpc +approval 657316b8-fc25 +waits  personal_sign: waits \(approvals approve 657316b8\)", text
    )
    assert "\x1b[33m" in text


@each_row("screen", [PLAIN, WIDE, NARROW])
def test_there_are_no_colours_where_there_are_none(screen: Screen) -> None:
    assert "\x1b" not in line(screen, status=500)
    assert "\x1b[31m" in line(Screen(has_colours=True), status=500)


def test_a_clients_text_cannot_steer_the_terminal() -> None:
    text = line(summary="\x1b]0;owned\x07\nand a line of its own", path="/\x1b[2J")

    assert text.isprintable()


async def test_each_request_has_its_line_also_after_a_reset(dev: DevServer) -> None:
    written: list[str] = []
    traffic = dev.built.traffic
    assert traffic is not None
    lines = TrafficLines(traffic, written.append, PLAIN)

    async def shown(part: str) -> None:
        async def holds() -> bool:
            return any(part in text for text in written)

        await eventually(holds)

    async with running(lines.run_forever()):
        await asyncio.sleep(0)
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
    written: list[str] = []
    traffic = dev.built.traffic
    assert traffic is not None
    exchange = Exchange("dapp", "GET", "/x", "x", 200, 1.0)

    async with running(TrafficLines(traffic, written.append, PLAIN).run_forever()):
        await asyncio.sleep(0)
        for _ in range(2_500):
            traffic.note(exchange)

        async def holds() -> bool:
            return bool(written)

        await eventually(holds)

    assert written[0].startswith("... 500 requests are not shown")
