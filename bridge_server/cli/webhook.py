"""`bridge-server webhook test`."""

import asyncio

import click

from bridge_server.admin.webhooks import wire
from bridge_server.admin.webhooks.service import TestedWebhook, WebhookTests
from bridge_server.assembly.foundation import lay_foundation
from bridge_server.cli.groups import Group
from bridge_server.cli.logs import configure_logs
from bridge_server.cli.operator import Operator, for_operator
from bridge_server.cli.options import CommandError
from bridge_server.kernel.fields import http_url
from bridge_server.outgoing.outcome import Verdict
from bridge_server.settings.settings import Settings


@click.group("webhook", cls=Group)
def webhook_group() -> None:
    """Test webhooks."""


@webhook_group.command("test")
@click.argument("url")
@for_operator
def test_command(operator: Operator, url: str) -> None:
    """Send one signed message to URL at once, as the server would, and print its answer.

    The message is sent once and is not stored. The exit code is 1 if the receiver did not take it.
    """
    try:
        checked = http_url(url)
    except ValueError as error:
        raise CommandError(f"URL {error}") from error
    configure_logs(operator.settings.log_level, operator.settings.log_format)
    tested = asyncio.run(_send(operator.settings, checked))
    if tested.outcome.verdict is Verdict.DELIVERED:
        lines = [f"the receiver took it and answered {tested.outcome.status} in {tested.milliseconds:.0f} ms"]
        operator.show(wire.tested_fields(tested), lines)
        return
    if operator.as_json:
        operator.show(wire.tested_fields(tested), [])
    else:
        click.echo(f"bridge-server: the receiver did not take it: {tested.outcome.reason}", err=True)
    raise SystemExit(1)


async def _send(settings: Settings, url: str) -> TestedWebhook:
    foundation = lay_foundation(settings)
    tests = WebhookTests(foundation.webhook_sender, foundation.clock, foundation.ids, foundation.stopping)
    async with foundation.webhooks:
        return await tests.send(url)
