"""The methods that send and sign transactions: parameters to requests, and on to the service."""

from typing import Any

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.ids import IdMaker
from bridge_server.wallet.errors import InvalidParamsError
from bridge_server.wallet.models import Address, Caller, SendRequest, TransactionId
from bridge_server.wallet.parameters import Params, arguments
from bridge_server.wallet.rpc.method_table import MethodTable
from bridge_server.wallet.transactions.requests import (
    MAX_NONCE,
    params_text,
    read_signed,
    read_transaction,
)
from bridge_server.wallet.transactions.service import SEND, SIGN, TransactionService

_SEND_RAW = "eth_sendRawTransaction"


class TransactionMethods:
    """eth_sendTransaction, eth_sendRawTransaction and eth_signTransaction."""

    def __init__(self, service: TransactionService, clock: Clock, ids: IdMaker) -> None:
        self._service = service
        self._clock = clock
        self._ids = ids
        self.table = MethodTable({SEND: self.send, SIGN: self.sign, _SEND_RAW: self.send_raw}, wait=True)

    async def send(self, params: Params, caller: Caller) -> str:
        """The hash, or the zero hash when the node cannot be reached. Raises what the service raises."""
        [value] = arguments(SEND, params, 1, "transaction")
        request = read_transaction(value)
        return await self._service.send(self._asked(request.sender, value, caller), request)

    async def send_raw(self, params: Params, caller: Caller) -> str:
        """The hash, or the zero hash when the node does not take it now. Raises what the service raises."""
        [value] = arguments(_SEND_RAW, params, 1, "signed transaction")
        transaction = read_signed(value)
        if transaction.nonce > MAX_NONCE:
            raise InvalidParamsError(f"params[0] has a nonce above {MAX_NONCE:#x}, which is not stored.")
        asked = self._asked(Address(transaction.sender), value, caller)
        return await self._service.send_signed(asked, transaction, value)

    async def sign(self, params: Params, caller: Caller) -> str:
        """The signed transaction as DATA. Raises what the service raises."""
        [value] = arguments(SIGN, params, 1, "transaction")
        return await self._service.sign(read_transaction(value), caller)

    def _asked(self, sender: Address, value: Any, caller: Caller) -> SendRequest:
        now_ms = self._clock.now_ms()
        transaction_id = TransactionId(self._ids.ordered_uuid(now_ms))
        return SendRequest(transaction_id, sender, params_text(value), now_ms, caller)
