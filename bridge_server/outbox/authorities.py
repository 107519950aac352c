"""aiohttp, without the machine's certificate authorities until the first handshake. It would read them twice
when it is imported: a tenth of a server's start, and 2 MiB, where many servers never open a connection with
TLS.
"""

import ssl
from importlib import import_module
from typing import Any


class _ReadsLate(ssl.SSLContext):
    """A context that has not read the authorities yet. From its first handshake on it is any other."""

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Begin a handshake: both event loops make a connection's TLS with this."""
        self._read()
        return self.wrap_bio(*arguments, **options)

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        """Begin a handshake of a socket that blocks."""
        self._read()
        return self.wrap_socket(*arguments, **options)

    def _read(self) -> None:
        self.__class__ = ssl.SSLContext  # type: ignore[assignment]
        self.set_default_verify_paths()


def import_aiohttp() -> None:
    """Import aiohttp, with contexts that read the authorities when they are used."""
    ssl.SSLContext.set_default_verify_paths = _put_off  # type: ignore[method-assign,assignment]
    try:
        import_module("aiohttp")
    finally:
        del ssl.SSLContext.set_default_verify_paths  # the base class has its own


def _put_off(context: ssl.SSLContext) -> None:
    context.__class__ = _ReadsLate
