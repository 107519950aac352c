"""Signing by this project: a script for worker.py, with the tasks of oracle_signing.py."""

from typing import Any

from signing_tasks import KEY, serve_tasks

from bridge_server.ethereum.hex_data import data_of, hex_of
from bridge_server.ethereum.messages import personal_message_hash
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.ethereum.transactions import sign_transaction
from bridge_server.ethereum.typed_data import read_typed_data
from bridge_server.wallet.transactions.requests import read_transaction

ACCOUNT = SigningKey(KEY)


def sign_message(data: str) -> str:
    return hex_of(ACCOUNT.sign(personal_message_hash(data_of(data))))


def sign_typed_data(document: Any) -> str:
    return hex_of(ACCOUNT.sign(read_typed_data(document).digest))


def sign_transaction_object(transaction: Any) -> str:
    request = read_transaction(transaction)
    assert request.nonce is not None
    raw, *_ = sign_transaction(request.transaction(request.nonce), ACCOUNT)
    return hex_of(raw)


if __name__ == "__main__":
    serve_tasks(sign_message, sign_typed_data, sign_transaction_object)
