"""Signing by eth-account, run by the interpreter of the environment that has it: TASK.

Prints what comes of the task; then, for each line with a count that it reads, what one of so many cost in
microseconds of CPU time.
"""

import sys
import time
from typing import Any

from eth_account import Account  # type: ignore[import-not-found]
from eth_account.messages import encode_defunct  # type: ignore[import-not-found]
from machine import keep_on_first_core
from signing_tasks import KEY, tasks

ACCOUNT = Account.from_key(KEY)


def sign_message(data: str) -> str:
    return f"0x{ACCOUNT.sign_message(encode_defunct(hexstr=data)).signature.hex()}"


def sign_typed_data(document: Any) -> str:
    return f"0x{ACCOUNT.sign_typed_data(full_message=document).signature.hex()}"


def sign_transaction(transaction: Any) -> str:
    unsigned = {name: value for name, value in transaction.items() if name != "from"}
    return f"0x{ACCOUNT.sign_transaction(unsigned).raw_transaction.hex()}"


def main() -> None:
    task = tasks(sign_message, sign_typed_data, sign_transaction)[sys.argv[1]]
    keep_on_first_core(0)
    print(task(), flush=True)
    for line in sys.stdin:
        started = time.process_time_ns()
        for _ in range(int(line)):
            task()
        print((time.process_time_ns() - started) / 1e3 / int(line), flush=True)


if __name__ == "__main__":
    main()
