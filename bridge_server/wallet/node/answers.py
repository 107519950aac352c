"""JSON-RPC with the node: calls out, answers in. Results and error data stay as the node wrote them."""

import json
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import orjson

from bridge_server.kernel.json_texts import element_texts, member_texts
from bridge_server.wallet.errors import NodeError, NoNodeError
from bridge_server.wallet.models import RpcCall

Answer: TypeAlias = bytes | NodeError
"""The JSON text of a result, or the error that the node answered with."""

_INTERNAL_ERROR = -32603

# As most nodes begin the answer to one call, whose id is always 1.
_USUAL_BEGINNING = re.compile(rb'\{"jsonrpc":"2\.0","id":1,"result":')


class _NotJsonRpcError(ValueError):
    pass


def write_calls(calls: Sequence[RpcCall]) -> bytes:
    """One call as an object, several as a batch; their ids are their positions, from 1 on."""
    requests = [_request(number, call) for number, call in enumerate(calls, 1)]
    return requests[0] if len(requests) == 1 else b"[%b]" % b",".join(requests)


def read_answers(body: bytes, count: int) -> list[Answer]:
    """The answers to so many calls, in the order of the calls, whatever order the node has chosen.

    Raises NoNodeError when the body is no JSON-RPC.
    """
    try:
        if count == 1:
            return [_single(body.strip())]
        return _several(body.decode().strip(), count)
    except (ValueError, RecursionError) as error:
        raise NoNodeError(
            "What answers at node_url is no Ethereum node: it does not speak JSON-RPC."
        ) from error


def _request(number: int, call: RpcCall) -> bytes:
    params = b"" if call.params is None else b',"params":%b' % _json(call.params)
    return b'{"jsonrpc":"2.0","id":%d,"method":%b%b}' % (number, orjson.dumps(call.method), params)


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # an integer of more than 64 bits
        return json.dumps(value, ensure_ascii=False).encode()


def _single(body: bytes) -> Answer:
    beginning = _USUAL_BEGINNING.match(body)
    if beginning is not None and body.endswith(b"}"):
        result = body[beginning.end() : -1]
        if _is_json(result):  # and so ends where the object ends
            return result
    return _answer(member_texts(body.decode()))


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _several(text: str, count: int) -> list[Answer]:
    if text.startswith("{"):  # one error for the whole batch
        answer = _answer(member_texts(text))
        if not isinstance(answer, NodeError):
            raise _NotJsonRpcError("one result for a batch")
        return [answer] * count
    answers = {}
    for element in element_texts(text):
        members = member_texts(element)
        answers[members.get("id", "")] = _answer(members)
    left_out = NodeError(_INTERNAL_ERROR, "The node's answer leaves this call of the batch out.")
    return [answers.get(str(number), left_out) for number in range(1, count + 1)]


def _answer(members: dict[str, str]) -> Answer:
    if members.get("error", "null") != "null":
        return _error(members["error"])
    if "result" not in members:
        raise _NotJsonRpcError("neither a result nor an error")
    return members["result"].encode()


def _error(text: str) -> NodeError:
    members = member_texts(text)
    error = orjson.loads(text)
    code, message = error.get("code"), error.get("message")
    return NodeError(
        code if type(code) is int else _INTERNAL_ERROR,
        message if isinstance(message, str) else "The node gave no reason.",
        orjson.Fragment(members["data"].encode()) if "data" in members else None,
        has_data="data" in members,
    )
