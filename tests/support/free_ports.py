"""Ports for programs that cannot choose one themselves."""

import random
import socket
from contextlib import closing, suppress

_PORTS = range(20_000, 30_000)
"""Below the ports that the system hands out: no other test gets one of these in between."""


def free_ports(number: int) -> list[int]:
    """So many different ports of 127.0.0.1 on which nothing listens."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(found) == number:
            break
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found
