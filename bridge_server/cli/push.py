"""`bridge-server push test`."""

import click

from bridge_server.assembly.operator import OperatorServices, pushing
from bridge_server.cli.groups import Group
from bridge_server.cli.logs import configure_logs
from bridge_server.cli.operator import Operator, for_operator
from bridge_server.cli.options import CommandError
from bridge_server.outgoing.outcome import Outcome
from bridge_server.push.errors import ProviderFailedError
from bridge_server.topics.models import Topic


@click.group("push", cls=Group)
def push_group() -> None:
    """Test pushes to registered clients."""


@push_group.command("test")
@click.option("--topic", required=True, help="The topic that a client has registered with POST /new.")
@for_operator
def test_command(operator: Operator, topic: str) -> None:
    """Send one push to the client that is registered for a topic, and print the provider's answer.

    If the provider reports that the token is no longer valid, the client is unregistered, as with any push.
    """

    async def send(opened: OperatorServices) -> Outcome:
        async with pushing(opened) as push_server:
            try:
                return await push_server.push(Topic(topic), None)
            except ProviderFailedError as error:
                raise CommandError(f"the provider did not take it: {error.reason}") from error

    configure_logs(operator.settings.log_level, operator.settings.log_format)
    status = operator.run(send).status
    answer = "" if status is None else f" and answered {status}"
    operator.show({"success": True, "status": status}, [f"the provider took it{answer}"])
