"""Signing by eth-account: a script for worker.py, run by the interpreter of the environment that has it.

Each task is given what a JSON-RPC server has in its hands, and makes what that answers.
"""

from typing import Any

from eth_account import Account  # type: ignore[import-not-found]
from eth_account.messages import encode_defunct  # type: ignore[import-not-found]
from signing_tasks import KEY, serve_tasks

ACCOUNT = Account.from_key(KEY)


def sign_message(data: str) -> str:
    return f"0x{ACCOUNT.sign_message(encode_defunct(hexstr=data)).signature.hex()}"


def sign_typed_data(document: Any) -> str:
    return f"0x{ACCOUNT.sign_typed_data(full_message=document).signature.hex()}"


def sign_transaction_object(transaction: Any) -> str:
    unsigned = {name: value for name, value in transaction.items() if name != "from"}
    return f"0x{ACCOUNT.sign_transaction(unsigned).raw_transaction.hex()}"


if __name__ == "__main__":
    serve_tasks(sign_message, sign_typed_data, sign_transaction_object)
