"""Tables from the names of JSON-RPC methods to the functions that answer them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from bridge_server.wallet.models import Caller
from bridge_server.wallet.parameters import Params

Method: TypeAlias = Callable[[Params, Caller], Awaitable[Any]]
"""Answers one call with a JSON value. Raises BridgeError."""


@dataclass(frozen=True, slots=True)
class MethodTable:
    """Methods that belong together. Methods that `wait` ask the node, or a person, before they answer."""

    by_name: Mapping[str, Method]
    wait: bool = False
