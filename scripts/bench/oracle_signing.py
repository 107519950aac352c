"""Signing by eth-account: a script for worker.py, run by the interpreter of the environment that has it.

NAME of the task. Each is given what a JSON-RPC server has in its hands, and makes what it answers.
"""

import sys
from collections.abc import Callable

from cores import keep_on_first_core
from eth_account import Account  # type: ignore[import-not-found]
from eth_account.messages import encode_defunct  # type: ignore[import-not-found]
from signing_tasks import KEY, MAIL, MESSAGE, ORDER, TRANSACTIONS
from worker import serve

ACCOUNT = Account.from_key(KEY)


def sign_message() -> str:
    return str(ACCOUNT.sign_message(encode_defunct(hexstr=MESSAGE)).signature.hex())


def sign_mail() -> str:
    return str(ACCOUNT.sign_typed_data(full_message=MAIL).signature.hex())


def sign_order() -> str:
    return str(ACCOUNT.sign_typed_data(full_message=ORDER).signature.hex())


def sign_legacy() -> str:
    return str(ACCOUNT.sign_transaction(TRANSACTIONS["legacy"]).raw_transaction.hex())


def sign_fee_market() -> str:
    return str(ACCOUNT.sign_transaction(TRANSACTIONS["fee-market"]).raw_transaction.hex())


TASKS: dict[str, Callable[[], str]] = {
    "personal_sign": sign_message,
    "typed data, Mail": sign_mail,
    "typed data, 20 structs": sign_order,
    "transaction, legacy": sign_legacy,
    "transaction, EIP-1559": sign_fee_market,
}


def main() -> None:
    keep_on_first_core(0)
    task = TASKS[sys.argv[1]]

    def work(count: int, _: int) -> None:
        for _ in range(count):
            task()

    print(task().removeprefix("0x"), flush=True)
    serve(work)


if __name__ == "__main__":
    main()
