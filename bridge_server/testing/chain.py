"""A chain in memory for the fake node: accounts with money, transactions, blocks and receipts."""

from typing import Any

from bridge_server.ethereum.hex_data import hex_of
from bridge_server.ethereum.raw_transactions import (
    RawTransaction,
    RawTransactionError,
    read_raw_transaction,
)
from bridge_server.testing.blocks import (
    BASE_FEE,
    GAS_USED,
    TIP,
    Block,
    block_object,
    hash_of,
    price,
    receipt_object,
    transaction_object,
)
from bridge_server.testing.fake_node import RpcFailure

ETHER = 10**18
DEVELOPMENT_CHAIN_ID = 31_337

_REFUSED = -32_000


class Chain:
    """Every account begins with `balance` wei. A transaction is mined at once, unless `mines` is off.

    No code runs: a call of a contract costs what a transfer costs, and returns nothing.
    """

    def __init__(self, chain_id: int = DEVELOPMENT_CHAIN_ID, balance: int = 10_000 * ETHER) -> None:
        self.chain_id = chain_id
        self.mines = True
        self.blocks = [Block(0, hash_of(b"block 0"), ())]
        self.pending: list[RawTransaction] = []
        self._first_balance = balance
        self._balances: dict[str, int] = {}
        self._mined: dict[str, tuple[Block, int]] = {}

    @property
    def transactions(self) -> list[RawTransaction]:
        """The transactions in blocks, oldest first."""
        return [transaction for block in self.blocks for transaction in block.transactions]

    def balance(self, address: str) -> int:
        """The account's money, in wei."""
        return self._balances.get(address.lower(), self._first_balance)

    def set_balance(self, address: str, wei: int) -> None:
        """Give the account so much money."""
        self._balances[address.lower()] = wei

    def mine(self, blocks: int = 1) -> None:
        """Put the pending transactions into a block, and add empty blocks up to so many."""
        for _ in range(blocks):
            number, chosen = len(self.blocks), self._next_transactions()
            block = Block(number, hash_of(b"block %d" % number), chosen)
            self.blocks.append(block)
            for place, transaction in enumerate(chosen):
                self._mined[hex_of(transaction.hash)] = block, place
                self._pay(transaction)

    def methods(self) -> dict[str, Any]:
        """The methods of JSON-RPC that the chain answers: values, and functions of the params."""
        return {
            "eth_chainId": hex(self.chain_id),
            "net_version": str(self.chain_id),
            "web3_clientVersion": "bridge-server/fake-node",
            "eth_blockNumber": lambda: hex(self.blocks[-1].number),
            "eth_gasPrice": hex(BASE_FEE + TIP),
            "eth_maxPriorityFeePerGas": hex(TIP),
            "eth_estimateGas": lambda *_: hex(GAS_USED),
            "eth_call": lambda *_: "0x",
            "eth_getCode": lambda *_: "0x",
            "eth_getBalance": lambda address, *_: hex(self.balance(address)),
            "eth_getTransactionCount": self._count,
            "eth_getBlockByNumber": self._block_by_number,
            "eth_getBlockByHash": self._block_by_hash,
            "eth_sendRawTransaction": self._send,
            "eth_getTransactionByHash": self._transaction,
            "eth_getTransactionReceipt": self._receipt,
        }

    def _send(self, raw: str) -> str | RpcFailure:
        try:
            transaction = read_raw_transaction(bytes.fromhex(raw.removeprefix("0x")))
        except (RawTransactionError, ValueError) as error:
            return RpcFailure(_REFUSED, f"the transaction cannot be read: {error}")
        refusal = self._refusal(transaction)
        if refusal is not None:
            return RpcFailure(_REFUSED, refusal)
        self.pending = [each for each in self.pending if _slot(each) != _slot(transaction)]
        self.pending.append(transaction)
        if self.mines:
            self.mine()
        return hex_of(transaction.hash)

    def _refusal(self, transaction: RawTransaction) -> str | None:
        """The text with which nodes refuse the transaction, or None."""
        if transaction.chain_id not in (None, self.chain_id):
            return f"invalid sender: wrong chain id {transaction.chain_id}, expected {self.chain_id}"
        if hex_of(transaction.hash) in self._mined or transaction in self.pending:
            return "already known"
        if transaction.nonce < self._mined_count(transaction.sender):
            return "nonce too low"
        if _greatest_cost(transaction) > self.balance(transaction.sender):
            return "insufficient funds for gas * price + value"
        return None

    def _next_transactions(self) -> tuple[RawTransaction, ...]:
        """Take the pending transactions whose nonces follow on what is mined."""
        chosen: list[RawTransaction] = []
        counts: dict[str, int] = {}
        for transaction in sorted(self.pending, key=lambda each: each.nonce):
            expected = counts.get(transaction.sender, self._mined_count(transaction.sender))
            if transaction.nonce == expected:
                counts[transaction.sender] = expected + 1
                chosen.append(transaction)
        self.pending = [transaction for transaction in self.pending if transaction not in chosen]
        return tuple(chosen)

    def _pay(self, transaction: RawTransaction) -> None:
        cost = transaction.value + GAS_USED * price(transaction)
        self.set_balance(transaction.sender, self.balance(transaction.sender) - cost)
        if transaction.to is not None:
            self.set_balance(transaction.to, self.balance(transaction.to) + transaction.value)

    def _mined_count(self, address: str) -> int:
        return sum(transaction.sender == address.lower() for transaction in self.transactions)

    def _count(self, address: str, tag: str = "latest") -> str:
        waiting = sum(each.sender == address.lower() for each in self.pending)
        return hex(self._mined_count(address) + (waiting if tag == "pending" else 0))

    def _block_by_number(self, tag: str, full: bool = False) -> dict[str, Any] | None:
        names = {"earliest": 0, "latest": -1, "pending": -1, "safe": -1, "finalized": -1}
        number = names[tag] if tag in names else int(tag, 16)
        return block_object(self.blocks[number], full) if number < len(self.blocks) else None

    def _block_by_hash(self, wanted: str, full: bool = False) -> dict[str, Any] | None:
        found = [block for block in self.blocks if block.hash == wanted]
        return block_object(found[0], full) if found else None

    def _transaction(self, wanted: str) -> dict[str, Any] | None:
        if wanted in self._mined:
            block, place = self._mined[wanted]
            return transaction_object(block.transactions[place], block, place)
        waiting = [each for each in self.pending if hex_of(each.hash) == wanted]
        return transaction_object(waiting[0]) if waiting else None

    def _receipt(self, wanted: str) -> dict[str, Any] | None:
        if wanted not in self._mined:
            return None
        return receipt_object(*self._mined[wanted])


def _slot(transaction: RawTransaction) -> tuple[str, int]:
    """The sender and the nonce: a second transaction of the two replaces the first."""
    return transaction.sender, transaction.nonce


def _greatest_cost(transaction: RawTransaction) -> int:
    return transaction.value + transaction.gas * transaction.max_fee_per_gas
