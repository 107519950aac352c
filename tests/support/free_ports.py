"""Ports for programs that cannot choose one themselves, or that come back to theirs."""

import os
import random
import socket
from contextlib import closing, suppress

_FIRST, _COUNT = 20_000, 600
_WORKERS = 16


def free_ports(number: int) -> list[int]:
    """So many different ports of 127.0.0.1 on which nothing listens.

    They are below the ports that the system hands out, and each worker has its own: no other test gets one of
    these in between, not even while a server that is started again is away.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    first = _FIRST + _COUNT * worker
    found: list[int] = []
    for port in random.sample(range(first, first + _COUNT), _COUNT):
        if len(found) == number:
            break
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found
