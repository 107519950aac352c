"""The chain of the fake node refuses what nodes refuse, in their words."""

from typing import Any

from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.ethereum.transactions import FeeMarketTransaction, LegacyTransaction, sign_transaction
from bridge_server.kit.testing.fake_node import Chain, RpcFailure

KEY = SigningKey(bytes(range(1, 33)))
TO = "0x00000000000000000000000000000000000000a1"


def raw(**fields: Any) -> str:
    """A signed transaction."""
    usual = {"chain_id": 31_337, "nonce": 0, "gas_price": 2 * 10**9, "gas": 21_000, "to": TO, "value": 1}
    signed, _, _ = sign_transaction(LegacyTransaction(**{**usual, **fields}), KEY)
    return f"0x{signed.hex()}"


def send(chain: Chain, transaction: str) -> Any:
    answer = chain.methods()["eth_sendRawTransaction"](transaction)
    return answer.message if isinstance(answer, RpcFailure) else answer


def test_a_transaction_that_cannot_be_mined_is_refused_and_a_nonce_is_used_once() -> None:
    chain = Chain()
    for transaction, text in (
        (raw(chain_id=5), "wrong chain id 5, expected 31337"),
        (raw(value=10**30), "insufficient funds"),
        ("0x00", "cannot be read"),
        ("nonsense", "cannot be read"),
    ):
        assert text in send(chain, transaction)
    assert (chain.transactions, chain.pending) == ([], [])

    send(chain, raw())
    assert send(chain, raw()) == "already known"
    assert send(chain, raw(value=2)) == "nonce too low"


def test_a_waiting_transaction_is_replaced_by_its_nonce_and_mined_in_order() -> None:
    chain = Chain()
    chain.mines = False
    for fields in ({"nonce": 1}, {"nonce": 3}, {"value": 5}, {"value": 7}):
        send(chain, raw(**fields))
    methods = chain.methods()
    assert methods["eth_getTransactionCount"](KEY.address, "pending") == "0x3"

    chain.mine(2)

    assert [(each.nonce, each.value) for each in chain.transactions] == [(0, 7), (1, 1)]
    assert [each.nonce for each in chain.pending] == [3]
    assert methods["eth_getTransactionCount"](KEY.address) == "0x2"
    assert [len(block.transactions) for block in chain.blocks] == [0, 2, 0]


def test_money_is_paid_with_its_gas_and_blocks_are_found_by_number_name_and_hash() -> None:
    chain = Chain(balance=10**18)
    transaction = FeeMarketTransaction(
        chain_id=31_337, nonce=0, max_priority_fee_per_gas=10**9, max_fee_per_gas=10**10, gas=21_000,
        to=TO, value=5,
    )  # fmt: skip
    signed, name, _ = sign_transaction(transaction, KEY)

    send(chain, f"0x{signed.hex()}")

    assert chain.balance(TO) == 10**18 + 5
    assert chain.balance(KEY.address) == 10**18 - 5 - 21_000 * 2 * 10**9
    methods = chain.methods()
    found = methods["eth_getTransactionByHash"](f"0x{name.hex()}")
    assert (found["maxFeePerGas"], found["blockNumber"]) == ("0x2540be400", "0x1")
    newest = methods["eth_getBlockByNumber"]("latest", True)
    assert newest["transactions"][0]["from"] == KEY.address.lower()
    assert methods["eth_getBlockByHash"](newest["hash"], True) == newest
    assert methods["eth_getBlockByNumber"]("0x0")["hash"] == newest["parentHash"]
    assert methods["eth_getBlockByNumber"]("0x9") is methods["eth_getBlockByHash"]("0x00") is None
