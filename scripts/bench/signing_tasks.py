"""What is signed in the comparison with eth-account: plain data, which both sides import.

`MAIL` is the example of EIP-712; `ORDER` nests some twenty structs, as exchanges do.
"""

from typing import Any

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

TRANSACTIONS: dict[str, dict[str, Any]] = {
    "legacy": {
        "to": "0x3535353535353535353535353535353535353535",
        "value": "0xde0b6b3a7640000",
        "gas": "0x5208",
        "gasPrice": "0x4a817c800",
        "nonce": "0x9",
        "data": "0x",
        "chainId": "0x1",
    },
    "fee-market": {
        "type": "0x2",
        "to": "0x3535353535353535353535353535353535353535",
        "value": "0xde0b6b3a7640000",
        "gas": "0x5208",
        "maxFeePerGas": "0x4a817c800",
        "maxPriorityFeePerGas": "0x3b9aca00",
        "nonce": "0x9",
        "data": "0xa9059cbb" + "00" * 64,
        "chainId": "0x1",
    },
}
