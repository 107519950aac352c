"""Typed data for the tests, of EIP-712 and of MetaMask."""

from typing import Any, TypeAlias

COW = "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"
DRAGON = "0x065a687103C9F6467380beE800ecD70B17f6b72F"
"""The signers of the examples: their private keys are Keccak-256 of `cow` and of `dragon`."""
BOB = "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"
DOMAIN_TYPE = [
    {"name": "name", "type": "string"},
    {"name": "version", "type": "string"},
    {"name": "chainId", "type": "uint256"},
    {"name": "verifyingContract", "type": "address"},
]
Types: TypeAlias = dict[str, list[dict[str, str]]]


def domain(name: str = "Ether Mail") -> dict[str, Any]:
    contract = "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"
    return {"name": name, "version": "1", "chainId": 1, "verifyingContract": contract}


def members(spelled: str) -> list[dict[str, str]]:
    """The members that are written as in Solidity: `members("string name, address wallet")`."""
    pairs = [part.split() for part in spelled.split(",")]
    return [{"name": name, "type": kind} for kind, name in pairs]


def mail() -> dict[str, Any]:
    """The example of EIP-712, and of this server's contract; a new one for each call."""
    return {
        "types": {
            "EIP712Domain": DOMAIN_TYPE,
            "Person": members("string name, address wallet"),
            "Mail": members("Person from, Person to, string contents"),
        },
        "primaryType": "Mail",
        "domain": domain(),
        "message": {
            "from": {"name": "Cow", "wallet": COW},
            "to": {"name": "Bob", "wallet": BOB},
            "contents": "Hello, Bob!",
        },
    }


def with_domain(domain_type: list[dict[str, str]] | None, values: object) -> dict[str, Any]:
    """The example of EIP-712 with another domain, and another type or none for it."""
    changed = mail() | {"domain": values}
    del changed["types"]["EIP712Domain"]
    if domain_type is not None:
        changed["types"]["EIP712Domain"] = domain_type
    return changed


def group_mail() -> dict[str, Any]:
    """With arrays of addresses and of structs, and a type that nothing uses."""
    wallets = ["0xB0BdaBea57B0BDABeA57b0bdABEA57b0BDabEa57", "0xB0B0b0b0b0b0B000000000000000000000000000"]
    return {
        "types": {
            "EIP712Domain": DOMAIN_TYPE,
            "Person": members("string name, address[] wallets"),
            "Mail": members("Person from, Person[] to, string contents"),
            "Group": members("string name, Person[] members"),
        },
        "primaryType": "Mail",
        "domain": domain(),
        "message": {
            "from": {"name": "Cow", "wallets": [COW, "0xDeaDbeefdEAdbeefdEadbEEFdeadbeEFdEaDbeeF"]},
            "to": [{"name": "Bob", "wallets": [BOB, *wallets]}],
            "contents": "Hello, Bob!",
        },
    }


def family_tree() -> dict[str, Any]:
    """With a type that leads back to itself."""
    return {
        "types": {
            "EIP712Domain": DOMAIN_TYPE,
            "Person": members("string name, Person mother, Person father"),
        },
        "primaryType": "Person",
        "domain": domain("Family Tree"),
        "message": _person(
            "Jon",
            mother=_person("Lyanna", father=_person("Rickard")),
            father=_person("Rhaegar", father=_person("Aeris II")),
        ),
    }


def one_value(kind: str, value: object, **types: list[dict[str, str]]) -> dict[str, Any]:
    """A message with one member, `value`, of the type `kind`, and further struct types."""
    return {
        "types": {"EIP712Domain": DOMAIN_TYPE, "Holder": members(f"{kind} value"), **types},
        "primaryType": "Holder",
        "domain": domain(),
        "message": {"value": value},
    }


def _person(name: str, **parents: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "mother": None, "father": None, **parents}
