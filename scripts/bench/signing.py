"""Signing by this project: a script for worker.py. NAME of the task, as in oracle_signing.py."""

import sys
from collections.abc import Callable

from cores import keep_on_first_core
from signing_tasks import KEY, MAIL, MESSAGE, ORDER, TRANSACTIONS
from worker import serve

from bridge_server.ethereum.hex_data import data_of, hex_of
from bridge_server.ethereum.messages import personal_message_hash
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.ethereum.typed_data import read_typed_data

ACCOUNT = SigningKey(KEY)


def sign_message() -> str:
    return hex_of(ACCOUNT.sign(personal_message_hash(data_of(MESSAGE))))


def sign_mail() -> str:
    return hex_of(ACCOUNT.sign(read_typed_data(MAIL).digest))


def sign_order() -> str:
    return hex_of(ACCOUNT.sign(read_typed_data(ORDER).digest))


TASKS: dict[str, Callable[[], str]] = {
    "personal_sign": sign_message,
    "typed data, Mail": sign_mail,
    "typed data, 20 structs": sign_order,
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
