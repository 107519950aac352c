"""`bridge-server outbox`, `webhook test`, `push test` and `device list`: what the server sends."""

import asyncio

import click
import orjson

from bridge_server.admin import outbox, projects
from bridge_server.admin.delivery_tests import TestedWebhookAnswer, WebhookTests
from bridge_server.assembly.command_line import CommandServices, pushing
from bridge_server.assembly.foundation import lay_foundation
from bridge_server.cli import process, running_server
from bridge_server.cli.database_command import DatabaseCommand, database_command
from bridge_server.cli.options import CommandError, command_errors
from bridge_server.cli.output import Group, columns, table
from bridge_server.kernel.fields import http_url
from bridge_server.kernel.instants import rfc3339
from bridge_server.outbox import guarded_client, topics
from bridge_server.outbox.message_store import MessageStore
from bridge_server.outbox.models import MessageFilter, MessageState, StoredMessage
from bridge_server.projects.devices import DeviceState
from bridge_server.push.models import ProviderFailedError

_HEADER = ("message", "state", "purpose", "destination", "attempts", "since", "error")
_WEBHOOKS = ("http", "https")

message_argument = click.argument("message", required=False)
dead_option = click.option("--dead", is_flag=True, help="All dead letters, instead of one message.")
destination_option = click.option(
    "--destination", help="Only messages to this destination, as the list spells it."
)


@click.group("outbox", cls=Group)
def outbox_group() -> None:
    """Inspect, retry and drop queued messages. Works with or without a running server.

    A message was delivered if it is not in the outbox any more. A dead letter was given up. MESSAGE is the id
    of a message, as the list prints it.
    """


@database_command(outbox_group.command("list"))
@click.option("--dead", is_flag=True, help="Only dead letters.")
@destination_option
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="How many.")
def list_command(command: DatabaseCommand, dead: bool, destination: str | None, limit: int) -> None:
    """Print queued messages and dead letters, newest first."""
    wanted = MessageFilter(MessageState.DEAD if dead else None, None, destination)

    async def listed(opened: CommandServices) -> tuple[list[StoredMessage], int]:
        store, now_ms = _store(opened), opened.clock.now_ms()
        page = await store.page(wanted, None, limit, now_ms)
        found = list(page.messages)
        while page.rest is not None and len(found) < limit:  # a page may be short although more follow
            page = await store.page(wanted, page.rest, limit - len(found), now_ms)
            found.extend(page.messages)
        return found, opened.clock.now_ms()

    messages, now_ms = command.run(listed)
    is_chosen = dead or destination is not None
    rows = [
        (
            f"{message.row_id}-{message.message_id}", message.state(now_ms), message.purpose,
            message.queue.destination, str(message.attempts), rfc3339(message.created_at_ms),
            message.last_error or "-",
        )
        for message in messages
    ]  # fmt: skip
    lines = table(_HEADER, rows, "the outbox has no such message" if is_chosen else "the outbox is empty")
    command.show({"messages": [outbox.message_fields(message, now_ms) for message in messages]}, lines)


@database_command(outbox_group.command("show"))
@click.argument("message")
def show_command(command: DatabaseCommand, message: str) -> None:
    """Print one message with its headers; its body only if it is a project's event."""

    async def found(opened: CommandServices) -> outbox.WholeMessageAnswer:
        whole, now_ms = await _store(opened).whole(*outbox.read_id(message)), opened.clock.now_ms()
        is_webhook = whole.message.channel in _WEBHOOKS
        headers = opened.foundation.webhooks.headers(whole.message, now_ms) if is_webhook else {}
        return outbox.whole_fields(whole, headers, now_ms)

    fields = command.run(found)
    command.show(fields, columns([(name, _cell(value)) for name, value in fields.items()]))


@database_command(outbox_group.command("retry"))
@message_argument
@dead_option
@destination_option
def retry_command(command: DatabaseCommand, message: str | None, dead: bool, destination: str | None) -> None:
    """Send a message now, or with --dead all dead letters. A dead letter begins its attempts anew.

    A running server sends it within seconds, otherwise the next server that starts.
    """
    _require_choice(message, dead, destination)

    async def retry(opened: CommandServices) -> int:
        store, now_ms = _store(opened), opened.clock.now_ms()
        if message is None:
            return await outbox.retry_all_dead(store, destination, now_ms)
        await store.retry(*outbox.read_id(message), now_ms)
        return 1

    _show_changed(command, message, command.run(retry), "is sent again", "are sent again")


@database_command(outbox_group.command("drop"))
@message_argument
@dead_option
@destination_option
def drop_command(command: DatabaseCommand, message: str | None, dead: bool, destination: str | None) -> None:
    """Delete a message for good, or with --dead all dead letters.

    A message that a server is sending at this moment may still arrive.
    """
    _require_choice(message, dead, destination)

    async def drop(opened: CommandServices) -> int:
        store = _store(opened)
        if message is None:
            return await outbox.drop_all_dead(store, destination, opened.clock.now_ms())
        await store.drop(*outbox.read_id(message))
        return 1

    _show_changed(command, message, command.run(drop), "was dropped", "were dropped")


def _store(opened: CommandServices) -> MessageStore:
    return MessageStore(opened.foundation.database)


def _require_choice(message: str | None, dead: bool, destination: str | None) -> None:
    if (message is None) != dead:
        raise CommandError("name one message, or all dead letters with --dead: `outbox list` prints both")
    if message is not None and destination is not None:
        raise CommandError("--destination chooses among dead letters: leave out the message")


def _show_changed(
    command: DatabaseCommand, message: str | None, count: int, done: str, all_done: str
) -> None:
    line = f"{count:,} dead letters {all_done}" if count else "there are no such dead letters"
    command.show(outbox.count_fields(count), [line if message is None else f"{message} {done}"])


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_cell(each)}" for name, each in value.items()) or "-"
    if isinstance(value, list):
        return orjson.dumps(value).decode()
    return "-" if value is None else str(value)


webhook_group = Group("webhook", help="Test webhooks.")


@database_command(webhook_group.command("test"))
@click.argument("url")
def test_command(command: DatabaseCommand, url: str) -> None:
    """Send one signed message to URL at once, as the server would, and print its answer.

    The message is sent once and is not stored. The settings are those of this command: for a receiver on this
    machine set BRIDGE_ALLOW_PRIVATE_WEBHOOKS=true. The exit code is 1 if the receiver did not take it.
    """
    with command_errors(ValueError, about="URL "):
        checked = http_url(url)
    process.configure_logs(command.settings.log_level, command.settings.log_format)

    async def send() -> TestedWebhookAnswer:
        foundation = lay_foundation(command.settings)
        tests = WebhookTests(foundation.webhook_sender, foundation.clock, foundation.ids, foundation.stopping)
        async with foundation.webhooks:
            return await tests.send(checked)

    tested = asyncio.run(send())
    if tested["delivered"]:
        answer = f"answered {tested['status']} in {tested['milliseconds']:.0f} ms"
        command.show(tested, [f"the receiver took it and {answer}"])
        return
    if command.as_json:
        command.show(tested, [])
    else:
        click.echo(f"bridge-server: it was not delivered: {tested['failure']}", err=True)
    raise SystemExit(1)


push_group = Group("push", help="Test pushes to registered clients.")


@database_command(push_group.command("test"))
@click.option("--topic", required=True, help="The topic that a client has registered with POST /new.")
def test_push_command(command: DatabaseCommand, topic: str) -> None:
    """Send one push to the client that is registered for a topic, and print the provider's answer.

    If the provider reports that the token is no longer valid, the client is unregistered, as with any push.
    """

    async def send(opened: CommandServices) -> guarded_client.Outcome:
        async with pushing(opened) as push_server:
            try:
                return await push_server.push(topics.Topic(topic), None)
            except ProviderFailedError as error:
                raise CommandError(f"the provider did not take it: {error.reason}") from error

    process.configure_logs(command.settings.log_level, command.settings.log_format)
    status = command.run(send).status
    answer = "" if status is None else f" and answered {status}"
    command.show({"success": True, "status": status}, [f"the provider took it{answer}"])


device_group = Group("device", help="Inspect the devices of accounts.")


@database_command(device_group.command("list"))
@click.argument("account")
def list_devices_command(command: DatabaseCommand, account: str) -> None:
    """Print the devices of ACCOUNT (CAIP-10) and the state of deliveries to them.

    The addresses and tokens of the devices are not shown.
    """

    async def states(opened: CommandServices) -> list[DeviceState]:
        return await opened.devices.of_account(projects.read_account(account).key)

    devices = command.run(states)
    rows = [
        (
            device.device_id, device.channel, device.state.value, str(device.queued),
            "-" if device.delivered_at_ms is None else rfc3339(device.delivered_at_ms),
            device.last_error or "-",
        )
        for device in devices
    ]  # fmt: skip
    header = ("device", "channel", "state", "queued", "last delivered", "last error")
    lines = table(header, rows, f"{account} has no devices")
    url = running_server.running_url(command.settings)
    # Deliveries may also wait because no server runs, or because it reports a problem.
    if url is not None and not command.as_json:
        lines += running_server.troubles_of(url)
    elif url is None and any(device.queued for device in devices):
        lines.append(f"no server runs on {command.settings.data_dir}: queued messages wait for one")
    command.show(projects.devices_fields(devices), lines)
