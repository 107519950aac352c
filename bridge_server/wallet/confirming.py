"""Whether what the node has taken is on the chain, or has been forgotten."""

from collections.abc import Sequence

import structlog

from bridge_server.ethereum.hex_data import HexError, quantity_of
from bridge_server.kernel.clock import Clock
from bridge_server.wallet.models import Address, RpcCall, StoredTransaction
from bridge_server.wallet.node import Node
from bridge_server.wallet.store import TransactionStore

_ASKED_AT_ONCE = 50

log = structlog.get_logger()


class Confirming:
    """Follows transactions that were sent until their nonce is used on the chain."""

    def __init__(self, store: TransactionStore, node: Node, clock: Clock) -> None:
        self._store = store
        self._node = node
        self._clock = clock

    async def check(self) -> None:
        """Look at everything that was sent: what is on the chain is done, what is forgotten is due again.

        Raises NoNodeError, WrongChainError.
        """
        chain_id = await self._node.chain_id()
        after = None
        while sent := await self._store.unmined(chain_id, after, _ASKED_AT_ONCE):
            counts = await self._settle_mined(chain_id, {each.request.sender for each in sent})
            await self._send_forgotten_again([each for each in sent if _is_unused(each, counts)])
            after = sent[-1].request.transaction_id

    async def _settle_mined(self, chain_id: int, senders: set[Address]) -> dict[Address, int]:
        """The next nonce of each account on the chain, as far as the node tells."""
        calls = [RpcCall("eth_getTransactionCount", [sender, "latest"]) for sender in senders]
        counts = {}
        for sender, answer in zip(senders, await self._node.ask(calls), strict=True):
            try:
                counts[sender] = quantity_of(answer)
            except HexError:
                continue
            await self._store.settle_mined(chain_id, sender, counts[sender], self._clock.now_ms())
        return counts

    async def _send_forgotten_again(self, sent: Sequence[StoredTransaction]) -> None:
        if not sent:
            return
        calls = [
            RpcCall("eth_getTransactionByHash", [each.signed and each.signed.transaction_hash])
            for each in sent
        ]
        found = await self._node.ask(calls)
        forgotten = [
            each.request.transaction_id for each, answer in zip(sent, found, strict=True) if answer is None
        ]
        if forgotten:
            log.warning("node_forgot_transactions", transactions=len(forgotten))
            await self._store.send_again(forgotten, self._clock.now_ms())


def _is_unused(stored: StoredTransaction, counts: dict[Address, int]) -> bool:
    sender = stored.request.sender
    return stored.signed is not None and sender in counts and stored.signed.nonce >= counts[sender]
