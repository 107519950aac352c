"""Figures of the server's metrics, by which a test knows that something is under way, or over."""

from tests.support.asking import ask
from tests.support.eventually import eventually
from tests.support.server import RunningServer

METRICS_TOKEN = "the token of the metrics"
_PATIENCE_SECONDS = 60.0


async def figure(server: RunningServer, name: str) -> float:
    """A gauge of a server that was started with `metrics_token=METRICS_TOKEN`."""
    answer = await ask(server, "GET", "/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})
    lines = answer.body.decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"bridge_{name} "))


async def until_waiting(server: RunningServer, clients: int) -> None:
    """Return once exactly so many clients wait in long polls."""

    async def reached() -> bool:
        return await figure(server, "waiting_clients") == clients

    await eventually(reached, _PATIENCE_SECONDS)


async def until_delivered(server: RunningServer) -> None:
    """Return once no webhook is owed any more."""

    async def nothing_owed() -> bool:
        return await figure(server, "outbox_due") == 0

    await eventually(nothing_owed, _PATIENCE_SECONDS)
