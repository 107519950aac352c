"""Blocks, transactions and receipts of the chain in memory, as a node spells them in JSON."""

from dataclasses import dataclass
from typing import Any

from bridge_server.ethereum import rlp
from bridge_server.ethereum.hex_data import hex_of
from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.raw_transactions import RawTransaction

BASE_FEE = 10**9
TIP = 10**9
GAS_USED = 21_000
_BLOCK_GAS = 30_000_000
_FIRST_TIMESTAMP = 1_700_000_000
_SECONDS_BETWEEN_BLOCKS = 12
_NO_HASH = "0x" + "00" * 32


@dataclass(frozen=True, slots=True)
class Block:
    """A block with its transactions, in their order."""

    number: int
    hash: str
    transactions: tuple[RawTransaction, ...]


def price(transaction: RawTransaction) -> int:
    """The price that the sender pays for a unit of gas."""
    tip = transaction.max_priority_fee_per_gas
    return transaction.max_fee_per_gas if tip is None else min(transaction.max_fee_per_gas, BASE_FEE + tip)


def _contract_address(transaction: RawTransaction) -> str | None:
    """The address of the contract that the transaction creates."""
    if transaction.to is not None:
        return None
    creator = bytes.fromhex(transaction.sender[2:])
    return hex_of(keccak256(rlp.encode([creator, rlp.number(transaction.nonce)]))[-20:])


def block_object(block: Block, full: bool) -> dict[str, Any]:
    """The block with its transactions, or with their hashes unless `full`."""
    transactions: list[Any] = [
        transaction_object(each, block, place) if full else hex_of(each.hash)
        for place, each in enumerate(block.transactions)
    ]
    return {
        "number": hex(block.number),
        "hash": block.hash,
        "parentHash": hash_of(b"block %d" % (block.number - 1)) if block.number else _NO_HASH,
        "timestamp": hex(_FIRST_TIMESTAMP + block.number * _SECONDS_BETWEEN_BLOCKS),
        "baseFeePerGas": hex(BASE_FEE),
        "gasLimit": hex(_BLOCK_GAS),
        "gasUsed": hex(GAS_USED * len(transactions)),
        "miner": "0x" + "00" * 20,
        "extraData": "0x",
        "transactions": transactions,
    }


def transaction_object(
    transaction: RawTransaction, block: Block | None = None, place: int | None = None
) -> dict[str, Any]:
    """The transaction at this place of a block; one without a block is pending."""
    tip = transaction.max_priority_fee_per_gas
    fees = {"maxFeePerGas": hex(transaction.max_fee_per_gas), "maxPriorityFeePerGas": hex(tip or 0)}
    return {
        "hash": hex_of(transaction.hash),
        "type": hex(transaction.type),
        "from": transaction.sender,
        "to": transaction.to,
        "nonce": hex(transaction.nonce),
        "value": hex(transaction.value),
        "gas": hex(transaction.gas),
        "gasPrice": hex(price(transaction)),
        **({} if tip is None else fees),
        "input": hex_of(transaction.data),
        "chainId": None if transaction.chain_id is None else hex(transaction.chain_id),
        "blockHash": None if block is None else block.hash,
        "blockNumber": None if block is None else hex(block.number),
        "transactionIndex": None if place is None else hex(place),
    }


def receipt_object(block: Block, place: int) -> dict[str, Any]:
    """The receipt of the transaction at this place of the block."""
    transaction = block.transactions[place]
    return {
        "transactionHash": hex_of(transaction.hash),
        "transactionIndex": hex(place),
        "blockHash": block.hash,
        "blockNumber": hex(block.number),
        "from": transaction.sender,
        "to": transaction.to,
        "contractAddress": _contract_address(transaction),
        "type": hex(transaction.type),
        "status": "0x1",
        "gasUsed": hex(GAS_USED),
        "cumulativeGasUsed": hex(GAS_USED * (place + 1)),
        "effectiveGasPrice": hex(price(transaction)),
        "logs": [],
        "logsBloom": "0x" + "00" * 256,
    }


def hash_of(text: bytes) -> str:
    """The Keccak-256 of the text."""
    return hex_of(keccak256(text))
