"""Chosen cases of typed data: requests of real dapps, and edge cases of every type."""

from copy import deepcopy
from typing import Any

TOKEN = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
OWNER = "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"
SPENDER = "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"
CONTRACT = "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"
MAX_UINT256 = str(2**256 - 1)

DOMAIN_TYPE = {
    "name": "string",
    "version": "string",
    "chainId": "uint256",
    "verifyingContract": "address",
    "salt": "bytes32",
}
ETHER_MAIL = {"name": "Ether Mail", "version": "1", "chainId": 1, "verifyingContract": CONTRACT}


def typed_data(domain: dict[str, Any], types: dict[str, str], message: dict[str, Any]) -> dict[str, Any]:
    """Typed data of types written as `type name, type name`; the first is the primary type."""
    return {
        "types": {
            "EIP712Domain": [{"name": name, "type": DOMAIN_TYPE[name]} for name in domain],
            **{name: members(text) for name, text in types.items()},
        },
        "primaryType": next(iter(types)),
        "domain": domain,
        "message": message,
    }


def members(text: str) -> list[dict[str, str]]:
    """`uint256 id, string name` as a list of members."""
    pairs = (member.split() for member in text.split(", ") if member)
    return [{"name": name, "type": kind} for kind, name in pairs]


MAIL = typed_data(
    ETHER_MAIL,
    {"Mail": "Person from, Person to, string contents", "Person": "string name, address wallet"},
    {
        "from": {"name": "Cow", "wallet": OWNER},
        "to": {"name": "Bob", "wallet": SPENDER},
        "contents": "Hello, Bob!",
    },
)
GROUP_MAIL = typed_data(
    ETHER_MAIL,
    {
        "Mail": "Person from, Person[] to, Group[2][] groups, string contents",
        "Group": "string name, Person[] members",
        "Person": "string name, address[] wallets",
    },
    {
        "from": {"name": "Cow", "wallets": [OWNER, SPENDER]},
        "to": [{"name": "Bob", "wallets": [SPENDER, CONTRACT, TOKEN]}, {"name": "Eve", "wallets": []}],
        "groups": [
            [{"name": "one", "members": []}, {"name": "two", "members": [{"name": "", "wallets": []}]}]
        ],
        "contents": "Hello, Bob!",
    },
)
PERMIT = typed_data(
    {"name": "USD Coin", "version": "2", "chainId": "0x1", "verifyingContract": TOKEN},
    {"Permit": "address owner, address spender, uint256 value, uint256 nonce, uint256 deadline"},
    {"owner": OWNER, "spender": SPENDER, "value": MAX_UINT256, "nonce": 0, "deadline": 1_700_000_000},
)
PERMIT_BATCH = typed_data(
    {"name": "Permit2", "chainId": 1, "verifyingContract": "0x000000000022D473030F116dDEE9F6B43aC78BA3"},
    {
        "PermitBatch": "PermitDetails[] details, address spender, uint256 sigDeadline",
        "PermitDetails": "address token, uint160 amount, uint48 expiration, uint48 nonce",
    },
    {
        "details": [
            {"token": TOKEN, "amount": str(2**160 - 1), "expiration": str(2**48 - 1), "nonce": 0},
            {"token": CONTRACT, "amount": "0x0", "expiration": 0, "nonce": "7"},
        ],
        "spender": SPENDER,
        "sigDeadline": "1700000000",
    },
)
SAFE_TRANSACTION = typed_data(
    {"chainId": 100, "verifyingContract": CONTRACT},
    {
        "SafeTx": "address to, uint256 value, bytes data, uint8 operation, uint256 safeTxGas, "
        "uint256 baseGas, uint256 gasPrice, address gasToken, address refundReceiver, uint256 nonce"
    },
    {
        "to": TOKEN,
        "value": "0",
        "data": "0xa9059cbb" + "00" * 12 + SPENDER[2:].lower() + "00" * 31 + "05",
        "operation": 0,
        "safeTxGas": 0,
        "baseGas": 0,
        "gasPrice": "0",
        "gasToken": "0x" + "00" * 20,
        "refundReceiver": "0x" + "00" * 20,
        "nonce": 12,
    },
)
TREE = typed_data(
    {"name": "Tree"},
    {"Node": "uint8 value, Node[] children"},
    {
        "value": 1,
        "children": [{"value": 2, "children": []}, {"value": 3, "children": [{"value": 4, "children": []}]}],
    },
)


def all_widths(kind: str, value: Any) -> dict[str, Any]:
    """One member of each width of `uint`, `int` or `bytes`; `value` makes one from its bits or its size."""
    widths = range(1, 33) if kind == "bytes" else range(8, 257, 8)
    struct = ", ".join(f"{kind}{width} m{width}" for width in widths)
    return typed_data(
        {"name": f"every {kind}"}, {"Every": struct}, {f"m{width}": value(width) for width in widths}
    )


def chain(length: int) -> dict[str, Any]:
    """Structs that each hold the next, an array of the last, and some values: large and nested."""
    types: dict[str, str] = {}
    message: dict[str, Any] = {}
    for number in range(length, 0, -1):
        members_ = "uint256 id, address owner, string note, bytes32[2] proofs, int64[] deltas"
        value: dict[str, Any] = {
            "id": str(number**40),
            "owner": OWNER,
            "note": f"number {number}",
            "proofs": [f"0x{number:064x}", "0x" + "ff" * 32],
            "deltas": [-number, 0, number],
        }
        if number < length:
            members_ += f", Part{number + 1} next, Leaf[] leaves"
            value |= {
                "next": message,
                "leaves": [{"ok": True, "data": "0x"}, {"ok": False, "data": "0x00ff"}],
            }
        types[f"Part{number}"] = members_
        message = value
    return typed_data(ETHER_MAIL, dict(reversed(types.items())) | {"Leaf": "bool ok, bytes data"}, message)


def domain(**fields: Any) -> dict[str, Any]:
    """A small message in the given domain."""
    return typed_data(fields, {"Ping": "string text"}, {"text": "ping"})


def with_more_members() -> dict[str, Any]:
    """The standard's Mail, and beside every member another that no type names."""
    more: dict[str, Any] = deepcopy(MAIL)
    for members_ in more["types"].values():
        members_[0]["internalType"] = "contract"
    for place in (more, more["message"], more["message"]["to"]):
        place["amount"] = "1000"
    return more


def array(kind: str, value: Any) -> dict[str, Any]:
    """One member of that type."""
    return typed_data({"name": "Arrays"}, {"List": f"{kind} items"}, {"items": value})


CASES = {
    "the standard's Mail": MAIL,
    "groups of groups": GROUP_MAIL,
    "EIP-2612 permit, unlimited": PERMIT,
    "Permit2 batch": PERMIT_BATCH,
    "Safe transaction": SAFE_TRANSACTION,
    "a type that holds itself": TREE,
    "twenty structs": chain(20),
    "greatest of every uint": all_widths("uint", lambda bits: str(2**bits - 1)),
    "greatest of every int": all_widths("int", lambda bits: str(2 ** (bits - 1) - 1)),
    "least of every int": all_widths("int", lambda bits: str(-(2 ** (bits - 1)))),
    "minus one of every int": all_widths("int", lambda bits: -1),
    "every bytes": all_widths("bytes", lambda size: "0x" + "fe" * size),
    "empty domain": domain(),
    "domain of a name": domain(name="Ping"),
    "domain of a version": domain(version="1"),
    "domain of a chain": domain(chainId="137"),
    "domain of a contract": domain(verifyingContract=CONTRACT.lower()),
    "domain of a salt": domain(salt="0x" + "5a" * 32),
    "domain of everything": domain(**ETHER_MAIL, salt="0x" + "00" * 32),
    "empty texts": domain(name="", version=""),
    "empty array": array("uint8[]", []),
    "array of empty arrays": array("string[][]", [[], []]),
    "fixed array of arrays": array("int16[2][]", [[-1, 1], ["-32768", 32767]]),
    "array of fixed arrays": array("bytes4[][2]", [["0x01020304"], []]),
    "three dimensions": array("bool[1][2][]", [[[True], [False]]]),
    "array of texts": array("string[3]", ["", "a", "👩‍👩‍👧"]),
    "array of bytes": array("bytes[]", ["0x", "0x00", "0x" + "ab" * 33]),
    "array of addresses": array("address[]", [OWNER, OWNER.lower()]),
}

LENIENT_CASES = {
    "uint without a width": array("uint", str(2**256 - 1)),
    "int without a width": array("int[]", ["-1", str(-(2**255)), 5]),
    "members that no type names": with_more_members(),
}
