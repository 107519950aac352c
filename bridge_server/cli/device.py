"""`bridge-server device list`."""

from collections.abc import Iterable, Sequence

import click

from bridge_server.admin import wire
from bridge_server.assembly.operator import OperatorServices
from bridge_server.cli.groups import Group
from bridge_server.cli.operator import Operator, for_operator, table
from bridge_server.cli.running_server import running_url, troubles_of
from bridge_server.kernel.instants import rfc3339
from bridge_server.projects.device_states import DeviceState


@click.group("device", cls=Group)
def device_group() -> None:
    """Look at the devices that accounts have registered."""


@device_group.command("list")
@click.argument("account")
@for_operator
def list_command(operator: Operator, account: str) -> None:
    """Print the devices of ACCOUNT and how deliveries to them go, without their addresses."""

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
    operator.tell(wire.devices_fields(devices), [*listed, *_how_the_server_is(operator, devices)])


def _how_the_server_is(operator: Operator, devices: Sequence[DeviceState]) -> Iterable[str]:
    """Why deliveries may not go: no server runs that makes them, or it has troubles of its own."""
    if operator.as_json:
        return
    url = running_url(operator.settings)
    if url is not None:
        yield from troubles_of(url)
    elif any(device.queued for device in devices):
        yield f"no server runs on {operator.settings.data_dir}: what is queued waits for one"
