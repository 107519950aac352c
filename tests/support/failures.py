"""Every failure that the program can name."""

import importlib
import pkgutil
from collections.abc import Iterator

import bridge_server
from bridge_server.kernel.errors import BridgeError


def every_failure() -> list[type[BridgeError]]:
    """All subclasses of the kernel's kinds, and the kinds; every module is imported for it."""
    for module in pkgutil.walk_packages(bridge_server.__path__, "bridge_server."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
    return [kind for kind in _descendants(BridgeError) if kind.__module__.startswith("bridge_server.")]


def _descendants(kind: type[BridgeError]) -> Iterator[type[BridgeError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _descendants(child)
