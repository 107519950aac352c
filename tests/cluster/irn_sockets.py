"""Sockets of generation 2.x to processes, whose clocks are the machine's."""

from contextlib import AbstractAsyncContextManager

from tests.cluster.processes import ClusterProcess
from tests.support.irn_client import Identity, IrnClient, irn_connected


def irn_socket(
    process: ClusterProcess, identity: Identity | None = None
) -> AbstractAsyncContextManager[IrnClient]:
    """A socket of a new client, or of one that is known."""
    who = identity or Identity()
    token = who.token(iat=process.server.clock.now_ms() // 1_000, exp=None)
    return irn_connected(process.server.client, process.url, who, token=token)
