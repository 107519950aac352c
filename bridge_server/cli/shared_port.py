"""A port on which several processes listen: the system gives each connection to one of them."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from bridge_server.cli.options import CommandError


@contextmanager
def held_port(host: str, port: int) -> Iterator[int]:
    """Keep a port for the processes, a free one for 0, and yield its number. Nothing listens yet.

    Raises CommandError if another program has the port.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:  # without sharing: it must be free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            address = probe.getsockname()
        with socket.socket(family, socket.SOCK_STREAM) as kept:
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            kept.bind(address)
            yield address[1]
    except OSError as error:
        reason = (
            os.strerror(error.errno)
            if error.errno is not None and error.errno in errno.errorcode
            else str(error)
        )
        raise CommandError(
            f"cannot listen on {host} port {port} ({reason}): choose another with --host and --port"
        ) from error
