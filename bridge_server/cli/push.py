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
    """Look after pushes."""


@push_group.command("test")
@click.option("--topic", required=True, help="What a client registered for with POST /new.")
@for_operator
def test_command(operator: Operator, topic: str) -> None:
    """Push to the client that is registered for a topic, and tell what the provider answers.

    A token that the provider calls dead is unregistered, as it would be by any other push.
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
    operator.tell({"success": True, "status": status}, [f"the provider took it{answer}"])
