"""`outbox`: queued messages and dead letters, with and without a running server."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from bridge_server.assembly.command_line import operations
from bridge_server.cli.outbox import _cell
from bridge_server.kernel.clock import SystemClock
from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.outbox.store import enqueue
from tests.cli.attended import attended_server
from tests.cli.conftest import Invoke
from tests.cli.operating import Operating
from tests.support.clock import ManualClock
from tests.support.engines import database_of, settings_over
from tests.support.eventually import eventually
from tests.support.rows import each_row
from tests.support.webhook_receiver import WebhookReceiver, status

HOOK, OTHER = "https://app.example.org/hook", "https://other.example.org/hook"
DESTINATION = "https://app.example.org:443"


def owe(data_dir: Path, *urls: str) -> None:
    """Messages to these URLs, as a server had left them."""

    async def stored() -> None:
        async with operations(settings_over(data_dir)) as opened:
            for number, url in enumerate(urls, 1):
                message = OutgoingMessage(f"msg-{number}", url, b"{}", Purpose("relay"), subject="s" * 40)
                await opened.foundation.database.transaction(partial(enqueue, message, 1_000))

    asyncio.run(stored())


def kill(data_dir: Path) -> None:
    """Make all messages dead letters."""
    with database_of(settings_over(data_dir)) as database:
        database.changed(
            "UPDATE outbox SET died_at_ms = 2000, next_attempt_at_ms = NULL, last_error = 'it hangs'"
        )


@pytest.fixture
def operating(tmp_path: Path, invoke: Invoke) -> Operating:
    """Two messages to one receiver, and one to another."""
    owe(tmp_path / "data", HOOK, HOOK, OTHER)
    return Operating(invoke, tmp_path / "data")


def test_messages_are_listed_newest_first(operating: Operating) -> None:
    listed = operating.json("outbox", "list")["messages"]
    lines = operating.text("outbox", "list").splitlines()

    assert [each["id"] for each in listed] == ["3-msg-3", "2-msg-2", "1-msg-1"]
    assert {each["state"] for each in listed} == {"due"}
    assert lines[0].split() == ["message", "state", "purpose", "destination", "attempts", "since", "error"]
    assert "s" * 40 not in operating.text("outbox", "list", "--json")


def test_a_list_is_chosen_by_state_destination_and_number(operating: Operating) -> None:
    of_one = operating.json("outbox", "list", "--destination", DESTINATION)["messages"]
    first = operating.json("outbox", "list", "--limit", "1")["messages"]

    assert [each["id"] for each in of_one] == ["2-msg-2", "1-msg-1"]
    assert [each["id"] for each in first] == ["3-msg-3"]
    assert operating.text("outbox", "list", "--dead") == "the outbox has no such message\n"


def test_the_cells_of_a_message_are_spelled_as_json_has_them() -> None:
    body: dict[str, object] = {
        "event": "subscribed",
        "notification_types": ["news", "offers"],
        "url": None,
        "more": {},
    }

    assert _cell(body) == 'event: subscribed, notification_types: ["news","offers"], url: -, more: -'


def test_a_message_is_shown_without_its_payload(operating: Operating) -> None:
    shown = operating.json("outbox", "show", "1-msg-1")

    assert (shown["message_id"], shown["body"], shown["body_bytes"]) == ("msg-1", None, 2)
    assert shown["headers"]["webhook-id"] == "msg-1"
    assert "webhook-id: msg-1" in operating.text("outbox", "show", "1-msg-1")


def test_a_dead_letter_is_sent_again(operating: Operating) -> None:
    kill(operating.data_dir)

    said = operating.text("outbox", "retry", "1-msg-1")

    assert said == "1-msg-1 is sent again\n"
    states = {each["id"]: each["state"] for each in operating.json("outbox", "list")["messages"]}
    assert states == {"1-msg-1": "due", "2-msg-2": "dead", "3-msg-3": "dead"}


def test_a_message_is_dropped(operating: Operating) -> None:
    assert operating.json("outbox", "drop", "2-msg-2") == {"messages": 1}

    assert [each["id"] for each in operating.json("outbox", "list")["messages"]] == ["3-msg-3", "1-msg-1"]


@each_row(("command", "left"), [("retry", {"due": 2, "dead": 1}), ("drop", {"due": 0, "dead": 1})])
def test_the_dead_letters_of_a_destination_are_changed(
    operating: Operating, command: str, left: dict[str, int]
) -> None:
    kill(operating.data_dir)

    changed = operating.json("outbox", command, "--dead", "--destination", DESTINATION)

    assert changed == {"messages": 2}
    states = [each["state"] for each in operating.json("outbox", "list")["messages"]]
    assert {state: states.count(state) for state in ("due", "dead")} == left


@each_row("command", ["retry", "drop"])
def test_all_dead_letters_are_changed(operating: Operating, command: str) -> None:
    kill(operating.data_dir)

    assert operating.text("outbox", command, "--dead").startswith("3 dead letters ")
    assert operating.text("outbox", command, "--dead") == "there are no such dead letters\n"


@each_row(
    ("arguments", "fault"),
    [
        (("show", "9-msg-9"), "no such message"),
        (("retry", "nonsense"), "no such message"),
        (("drop", "1-msg-2"), "no such message"),
        (("retry",), "name one message, or all dead letters with --dead"),
        (("drop", "1-msg-1", "--dead"), "name one message, or all dead letters with --dead"),
        (("drop", "1-msg-1", "--destination", DESTINATION), "--destination chooses among dead letters"),
    ],
)
def test_an_impossible_command_prints_one_line_and_changes_nothing(
    operating: Operating, arguments: tuple[str, ...], fault: str
) -> None:
    assert fault in operating.refusal("outbox", *arguments).lower()
    assert len(operating.json("outbox", "list")["messages"]) == 3


async def test_a_running_server_sends_again_what_a_command_retries(
    tmp_path: Path, invoke: Invoke, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = status(500)
    clock = ManualClock(SystemClock().now_ms() + 60_000)  # so that the command's time is past for the server
    async with attended_server(tmp_path / "data", invoke, clock, allow_private_webhooks=True) as attended:
        await attended.admin.create("app", "news")
        await attended.admin.put("/admin/projects/app/webhook", {"url": receiver.url()})
        await attended.admin.subscribe("app", "test:chain:1")

        async def waits() -> bool:
            messages = (await attended.json("outbox", "list"))["messages"]
            return [each["state"] for each in messages] == ["waiting"]

        await eventually(waits)
        [found] = (await attended.json("outbox", "list"))["messages"]
        receiver.otherwise = status(200)

        await attended.lines("outbox", "retry", found["id"])

        await receiver.got(2)
