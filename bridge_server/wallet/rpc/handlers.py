"""HTTP to the wallet and back: each call of a request is answered by its method, or by the node."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NoReturn

from aiohttp import web

from bridge_server.kernel.errors import BridgeError
from bridge_server.wallet.errors import MethodNotFoundError
from bridge_server.wallet.models import Caller, RpcCall
from bridge_server.wallet.node.node import Node
from bridge_server.wallet.parameters import Params
from bridge_server.wallet.rpc.method_table import Method, MethodTable
from bridge_server.wallet.rpc.refused_methods import is_refused
from bridge_server.wallet.rpc.rpc_errors import rpc_error_of
from bridge_server.wallet.rpc.signing_turns import BatchTurns, SigningTurns
from bridge_server.web.answers import json_answer, no_content
from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.json_body import require_json
from bridge_server.web.json_rpc import (
    MethodCall,
    Request,
    Unreadable,
    read_requests,
    write_batch,
    write_error,
    write_result,
)
from bridge_server.web.request_id import REQUEST_ID

_SHOWN_CHARACTERS = 100


class WalletHandlers:
    """The endpoint of the protocol's section D. The wallet answers its own methods, the node all others."""

    def __init__(
        self, tables: Iterable[MethodTable], node: Node, turns: SigningTurns, addresses: ClientAddresses
    ) -> None:
        self._methods: dict[str, Method] = {}
        self._waiting: set[str] = set()
        for table in tables:
            self._methods.update(table.by_name)
            self._waiting.update(table.by_name if table.wait else ())
        self._node = node
        self._turns = turns
        self._addresses = addresses

    async def rpc(self, request: web.Request) -> web.Response:
        """200 with the responses, errors included; 204 when all calls were notifications."""
        require_json(request, is_declared=True)
        requests = read_requests(await request.read())
        caller = Caller(self._addresses.client(request), request.headers.get("Origin"), request[REQUEST_ID])
        if isinstance(requests, list):
            answer = await self._answer_batch(requests, caller)
        else:
            answer = await self._answer(requests, caller)
        return no_content() if answer is None else json_answer(answer)

    async def _answer(self, request: Request, caller: Caller) -> bytes | None:
        """The response object; None for a notification."""
        if isinstance(request, Unreadable):
            return write_error(request.id_text, request.error)
        method = self._method(request.method)
        if method is None:
            [response] = await self._ask_node([request], caller)
            return response
        turn = self._turns.take()
        if turn is not None:
            await turn
        return await _run(method, request, caller)

    async def _answer_batch(self, requests: Sequence[Request], caller: Caller) -> bytes | None:
        """Answer a batch. Calls that wait run beside the others; the node gets its calls in one request."""
        responses: dict[int, bytes | None] = {}
        for_node: dict[int, MethodCall] = {}
        turns = BatchTurns(self._turns)

        async def run_beside(place: int, method: Method, call: MethodCall) -> None:
            responses[place] = await _run(method, call, caller)

        async with asyncio.TaskGroup() as group:
            for place, request in enumerate(requests):
                if isinstance(request, Unreadable):
                    responses[place] = write_error(request.id_text, request.error)
                elif (method := self._method(request.method)) is None:
                    for_node[place] = request
                elif request.method in self._waiting:
                    group.create_task(run_beside(place, method, request))
                else:
                    await turns.next()
                    responses[place] = await _run(method, request, caller)
            if for_node:
                from_node = await self._ask_node(list(for_node.values()), caller)
                responses.update(zip(for_node, from_node, strict=True))
        said = [response for _, response in sorted(responses.items()) if response is not None]
        return write_batch(said) if said else None

    def _method(self, name: str) -> Method | None:
        """The function that answers the method; None when the node answers it."""
        method = self._methods.get(name)
        if method is None and is_refused(name):
            return partial(_no_such_method, name)
        return method

    async def _ask_node(self, calls: Sequence[MethodCall], caller: Caller) -> list[bytes | None]:
        """Have the node answer all these calls in one request."""
        answers: Sequence[Any]
        try:
            answers = await self._node.forward([RpcCall(call.method, call.params) for call in calls])
        except BridgeError as error:
            answers = [error] * len(calls)
        return [_pass_on(answer, call, caller) for answer, call in zip(answers, calls, strict=True)]


def _pass_on(answer: Any, call: MethodCall, caller: Caller) -> bytes | None:
    if call.id_text is None:
        return None
    if isinstance(answer, BridgeError):
        return write_error(call.id_text, rpc_error_of(answer, call.method, caller.request_id))
    return write_result(call.id_text, answer)


async def _run(method: Method, call: MethodCall, caller: Caller) -> bytes | None:
    id_text = call.id_text
    try:
        result = await method(call.params, caller)
        return None if id_text is None else write_result(id_text, result)
    except Exception as failure:
        error = rpc_error_of(failure, call.method, caller.request_id)
        return None if id_text is None else write_error(id_text, error)


async def _no_such_method(name: str, _params: Params, _caller: Caller) -> NoReturn:
    raise MethodNotFoundError(
        f"The wallet has no method {name[:_SHOWN_CHARACTERS]}, and the node is asked for none that signs, "
        "sends or handles keys."
    )
