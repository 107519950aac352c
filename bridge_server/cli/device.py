"""`bridge-server device list`."""

from collections.abc import Iterable, Sequence

import click

from bridge_server.admin.projects import wire
from bridge_server.assembly.operator import OperatorServices
from bridge_server.cli.groups import Group
from bridge_server.cli.operator import Operator, for_operator, table
from bridge_server.cli.running_server import running_url, troubles_of
from bridge_server.kernel.instants import rfc3339
from bridge_server.projects.device_states import DeviceState


@click.group("device", cls=Group)
def device_group() -> None:
    """Inspect the devices that accounts have registered for notifications."""


@device_group.command("list")
@click.argument("account")
@for_operator
def list_command(operator: Operator, account: str) -> None:
    """Print the devices of ACCOUNT (CAIP-10) and the state of deliveries to them.

    The addresses and tokens of the devices are not shown.
    """

    async def states(opened: OperatorServices) -> list[DeviceState]:
        return await opened.devices.of_account(wire.read_account(account).key)

    devices = operator.run(states)
    rows = [
        (
            device.device_id,
            device.channel,
            device.state.value,
            str(device.queued),
            "-" if device.delivered_at_ms is None else rfc3339(device.delivered_at_ms),
            device.last_error or "-",
        )
        for device in devices
    ]
    header = ("device", "channel", "state", "queued", "last delivered", "last error")
    listed = table(header, rows, f"{account} has no devices")
    operator.show(wire.devices_fields(devices), [*listed, *_server_state(operator, devices)])


def _server_state(operator: Operator, devices: Sequence[DeviceState]) -> Iterable[str]:
    """Reasons on the server's side why deliveries wait: no server runs, or it reports a problem."""
    if operator.as_json:
        return
    url = running_url(operator.settings)
    if url is not None:
        yield from troubles_of(url)
    elif any(device.queued for device in devices):
        yield f"no server runs on {operator.settings.data_dir}: queued messages wait for one"
