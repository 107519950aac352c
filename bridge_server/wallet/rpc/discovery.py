"""The OpenRPC document at `GET /openrpc.json`, and as the answer of `rpc.discover`.

It is made when it is asked for: most wallets never are.
"""

from functools import lru_cache
from importlib import import_module
from typing import Any

import orjson

from bridge_server.wallet import parameters
from bridge_server.wallet.models import Caller
from bridge_server.wallet.parameters import Params
from bridge_server.wallet.rpc.method_table import MethodTable

DISCOVER = "rpc.discover"


@lru_cache(maxsize=1)
def openrpc_json() -> bytes:
    """The document as JSON."""
    document: dict[str, Any] = import_module("bridge_server.wallet.rpc.openrpc").openrpc_document()
    return orjson.dumps(document)


def written_openrpc() -> orjson.Fragment:
    """The document as a JSON value that is encoded already."""
    return orjson.Fragment(openrpc_json())


async def _discover(params: Params, _: Caller) -> orjson.Fragment:
    parameters.nothing(DISCOVER, params)
    return written_openrpc()


DISCOVERY = MethodTable({DISCOVER: _discover})
"""The method `rpc.discover` (https://spec.open-rpc.org/#service-discovery-method)."""
