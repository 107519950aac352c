"""What is signed in the comparison with eth-account, as a JSON-RPC server has read it.

Plain data, which both sides import. `MAIL` is the example of EIP-712; `ORDER` nests some twenty structs, as
those of exchanges do.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

KEY = bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
ADDRESS = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
MESSAGE = "0x" + b"Sign in to the example, and nothing else.".hex()

Sign = Callable[[Any], str]


def _fields(text: str) -> list[dict[str, str]]:
    """`string name, address wallet`, as EIP-712 lists the fields of a struct."""
    return [dict(zip(("type", "name"), field.split(), strict=True)) for field in text.split(", ")]


def _typed_data(primary_type: str, message: dict[str, Any], **types: str) -> dict[str, Any]:
    domain = {
        "EIP712Domain": "string name, string version, uint256 chainId, address verifyingContract",
        "Person": "string name, address wallet",
    }
    return {
        "types": {name: _fields(text) for name, text in {**domain, **types}.items()},
        "primaryType": primary_type,
        "domain": {
            "name": "Ether Mail",
            "version": "1",
            "chainId": 1,
            "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC",
        },
        "message": message,
    }


def _asset(number: int) -> dict[str, Any]:
    return {
        "token": f"0x{number:040x}",
        "identifier": str(10**18 + number),
        "amounts": [number, 10 * number, 10**20 + number],
        "owner": {"name": f"owner {number}", "wallet": f"0x{number + 1:040x}"},
    }


_COW = {"name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"}
_BOB = {"name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"}
MAIL = _typed_data(
    "Mail",
    {"from": _COW, "to": _BOB, "contents": "Hello, Bob!"},
    Mail="Person from, Person to, string contents",
)
ORDER = _typed_data(
    "Order",
    {
        "maker": _COW,
        "offer": [_asset(number) for number in range(5)],
        "consideration": [_asset(number) for number in range(5, 10)],
        "deadline": 1_800_000_000,
        "salt": "0x" + "ab" * 32,
        "data": "0x" + "cd" * 100,
    },
    Asset="address token, uint256 identifier, uint256[3] amounts, Person owner",
    Order="Person maker, Asset[] offer, Asset[] consideration, uint64 deadline, bytes32 salt, bytes data",
)
_TRANSACTION = {
    "from": ADDRESS,
    "to": "0x3535353535353535353535353535353535353535",
    "value": "0xde0b6b3a7640000",
    "nonce": "0x9",
    "chainId": "0x1",
}
LEGACY = {**_TRANSACTION, "gas": "0x5208", "gasPrice": "0x4a817c800", "data": "0x"}
FEE_MARKET = {
    **_TRANSACTION,
    "type": "0x2",
    "gas": "0x15f90",
    "maxFeePerGas": "0x4a817c800",
    "maxPriorityFeePerGas": "0x3b9aca00",
    "data": "0xa9059cbb" + f"{0x3535:064x}" + f"{10**18:064x}",
}


def tasks(sign_message: Sign, sign_typed_data: Sign, sign_transaction: Sign) -> dict[str, Callable[[], str]]:
    """Each task by its name."""
    return {
        "sign-message": partial(sign_message, MESSAGE),
        "sign-mail": partial(sign_typed_data, MAIL),
        "sign-20-structs": partial(sign_typed_data, ORDER),
        "sign-legacy": partial(sign_transaction, LEGACY),
        "sign-eip-1559": partial(sign_transaction, FEE_MARKET),
    }
