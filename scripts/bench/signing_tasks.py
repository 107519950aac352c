"""Inputs of the comparison with eth-account: vectors of the tests, as JSON-RPC spells them."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

KEY = bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
ADDRESS = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
MESSAGE = "0x" + b"Sign in to the example, and nothing else.".hex()
_VECTORS = Path(__file__).parents[2] / "tests" / "vectors"

Sign = Callable[[Any], str]


def _vector(file: str, name: str) -> dict[str, Any]:
    vectors: list[dict[str, Any]] = json.loads((_VECTORS / file).read_bytes())["vectors"]
    return next(vector for vector in vectors if vector["name"] == name)


MAIL = _vector("typed_data.json", "the standard's Mail")["typed_data"]
ORDER = _vector("typed_data.json", "twenty structs")["typed_data"]
FEE_MARKET = {"from": ADDRESS, **_vector("transactions.json", "type 2, 68 bytes of data")["transaction"]}


def tasks(sign_message: Sign, sign_typed_data: Sign, sign_transaction: Sign) -> dict[str, Callable[[], str]]:
    """Each task by its name."""
    return {
        "sign-message": partial(sign_message, MESSAGE),
        "sign-mail": partial(sign_typed_data, MAIL),
        "sign-20-structs": partial(sign_typed_data, ORDER),
        "sign-eip-1559": partial(sign_transaction, FEE_MARKET),
    }
