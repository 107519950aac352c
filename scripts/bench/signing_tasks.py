"""What is signed in the comparison with eth-account, which both sides import, and how their scripts run.

Plain data, as a JSON-RPC server has read it. `MAIL` is the example of EIP-712; `ORDER` nests some twenty
structs, as those of exchanges do.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from cores import keep_on_first_core
from worker import serve

KEY = bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
ADDRESS = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
MESSAGE = "0x" + b"Sign in to the example, and nothing else.".hex()

_PERSON = [{"name": "name", "type": "string"}, {"name": "wallet", "type": "address"}]
_DOMAIN_TYPE = [
    {"name": "name", "type": "string"},
    {"name": "version", "type": "string"},
    {"name": "chainId", "type": "uint256"},
    {"name": "verifyingContract", "type": "address"},
]
_DOMAIN = {
    "name": "Ether Mail",
    "version": "1",
    "chainId": 1,
    "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC",
}

MAIL: dict[str, Any] = {
    "types": {
        "EIP712Domain": _DOMAIN_TYPE,
        "Person": _PERSON,
        "Mail": [
            {"name": "from", "type": "Person"},
            {"name": "to", "type": "Person"},
            {"name": "contents", "type": "string"},
        ],
    },
    "primaryType": "Mail",
    "domain": _DOMAIN,
    "message": {
        "from": {"name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},
        "to": {"name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"},
        "contents": "Hello, Bob!",
    },
}


def _asset(number: int) -> dict[str, Any]:
    return {
        "token": f"0x{number:040x}",
        "identifier": str(10**18 + number),
        "amounts": [number, 10 * number, 10**20 + number],
        "owner": {"name": f"owner {number}", "wallet": f"0x{number + 1:040x}"},
    }


ORDER: dict[str, Any] = {
    "types": {
        "EIP712Domain": _DOMAIN_TYPE,
        "Person": _PERSON,
        "Asset": [
            {"name": "token", "type": "address"},
            {"name": "identifier", "type": "uint256"},
            {"name": "amounts", "type": "uint256[3]"},
            {"name": "owner", "type": "Person"},
        ],
        "Order": [
            {"name": "maker", "type": "Person"},
            {"name": "offer", "type": "Asset[]"},
            {"name": "consideration", "type": "Asset[]"},
            {"name": "deadline", "type": "uint64"},
            {"name": "salt", "type": "bytes32"},
            {"name": "data", "type": "bytes"},
        ],
    },
    "primaryType": "Order",
    "domain": _DOMAIN,
    "message": {
        "maker": {"name": "Maker", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},
        "offer": [_asset(number) for number in range(5)],
        "consideration": [_asset(number) for number in range(5, 10)],
        "deadline": 1_800_000_000,
        "salt": "0x" + "ab" * 32,
        "data": "0x" + "cd" * 100,
    },
}

LEGACY: dict[str, Any] = {
    "from": ADDRESS,
    "to": "0x3535353535353535353535353535353535353535",
    "value": "0xde0b6b3a7640000",
    "gas": "0x5208",
    "gasPrice": "0x4a817c800",
    "nonce": "0x9",
    "data": "0x",
    "chainId": "0x1",
}
FEE_MARKET: dict[str, Any] = {
    "type": "0x2",
    "from": ADDRESS,
    "to": "0x3535353535353535353535353535353535353535",
    "value": "0x0",
    "gas": "0x15f90",
    "maxFeePerGas": "0x4a817c800",
    "maxPriorityFeePerGas": "0x3b9aca00",
    "nonce": "0x9",
    "data": "0xa9059cbb" + f"{0x3535:064x}" + f"{10**18:064x}",
    "chainId": "0x1",
}


Sign = Callable[[Any], str]


def serve_tasks(sign_message: Sign, sign_typed_data: Sign, sign_transaction: Sign) -> None:
    """A script for worker.py: do the task that is named on its command line; first say what comes of it."""
    tasks: dict[str, Callable[[], str]] = {
        "sign-message": partial(sign_message, MESSAGE),
        "sign-mail": partial(sign_typed_data, MAIL),
        "sign-20-structs": partial(sign_typed_data, ORDER),
        "sign-legacy": partial(sign_transaction, LEGACY),
        "sign-eip-1559": partial(sign_transaction, FEE_MARKET),
    }
    task = tasks[sys.argv[1]]

    def work(count: int, _: int) -> None:
        for _ in range(count):
            task()

    keep_on_first_core(0)
    print(task(), flush=True)
    serve(work)
