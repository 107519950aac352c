"""Requests to the wallet, one call or a batch, and the server's settings for them."""

from pathlib import Path

import orjson
from load import Load
from signing_tasks import ADDRESS, MAIL, MESSAGE

BATCH = 100
WALLET = {"BRIDGE_DEV_ACCOUNTS": "true", "BRIDGE_CHAIN_ID": "1"}


def rpc_body(method: str, *params: object, number: int = 1) -> bytes:
    """A JSON-RPC request, or a batch of several alike."""
    calls = [{"jsonrpc": "2.0", "id": each, "method": method, "params": params} for each in range(number)]
    return orjson.dumps(calls if number > 1 else calls[0])


SIGN_MESSAGE = rpc_body("personal_sign", MESSAGE, ADDRESS)
SIGN_MESSAGES = rpc_body("personal_sign", MESSAGE, ADDRESS, number=BATCH)
SIGN_TYPED_DATA = rpc_body("eth_signTypedData", ADDRESS, MAIL)


def rpc_load(folder: Path, body: bytes) -> Load:
    """A load of this request."""
    paths_file, body_file = folder / "bench-paths.txt", folder / "bench-body.txt"
    paths_file.write_text("/rpc\n")
    body_file.write_bytes(body)
    return Load("POST", paths_file, body_file, 200)
