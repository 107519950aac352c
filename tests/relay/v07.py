"""The bridge at the path for clients of generation 0.7."""

from tests.support.bridge_client import BridgeClient

V07_PATH = "/compat/v0.7"


def as_v07(bridge: BridgeClient) -> BridgeClient:
    """A client of generation 0.7 on the server of another client."""
    return BridgeClient(bridge.server, V07_PATH)
