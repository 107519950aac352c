"""The node's client: its calls, its connections, and its reading of answers.

White-box: over HTTP no test could say which connection a call takes.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import AsyncMock, Mock

import orjson
import pytest
import structlog
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.background import Stopping
from bridge_server.kit.testing.fake_node import (
    Answer,
    FakeNode,
    NodeRequest,
    RpcFailure,
    body,
    drop,
    hang,
    says,
)
from bridge_server.wallet.models import NodeError, NoNodeError, RpcCall, WrongChainError
from bridge_server.wallet.node import connections
from bridge_server.wallet.node.connections import read_answers, write_calls
from bridge_server.wallet.node.node import Node
from tests.support.clock import PassTime
from tests.support.proxies import open_closing_proxy
from tests.support.rows import each_row

PRICE = RpcCall("eth_gasPrice", [])
SEND = RpcCall("eth_sendRawTransaction", ["0x01"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
async def node(fake: FakeNode) -> AsyncIterator[Node]:
    async with Node(fake.url, 5.0, Stopping(0)) as node:
        yield node


def answered(fake: FakeNode) -> list[NodeRequest]:
    """The requests without those that ask for the chain alone."""
    return [request for request in fake.requests if request.methods != ["eth_chainId"]]


async def test_the_chain_is_the_nodes_and_stays(node: Node, fake: FakeNode) -> None:
    known = [node.known_chain_id]
    for chain in ("0x7a69", "0x1"):
        fake.results["eth_chainId"] = chain
        known += [await node.chain_id(), node.known_chain_id]
    assert known == [None, *[31_337] * 4]


async def test_every_connection_is_asked_for_its_chain_before_all_else(node: Node, fake: FakeNode) -> None:
    await asyncio.gather(*(node.ask([SEND]) for _ in range(40)))
    first: dict[object, list[str]] = {}
    for request in fake.requests:
        first.setdefault(request.connection, []).extend(request.methods)
    assert len(first) > 1
    assert {methods[0] for methods in first.values()} == {"eth_chainId"}
    assert all(methods.count("eth_chainId") == 1 for methods in first.values())
    assert fake.methods.count("eth_sendRawTransaction") == 40


async def test_each_new_connection_is_first_asked_for_its_chain(node: Node, fake: FakeNode) -> None:
    for _ in range(3):
        await node.forward([PRICE])
    fake.script.append(drop)
    await node.forward([PRICE])
    await node.ask([SEND])
    fake.at("eth_sendRawTransaction", drop)
    await node.ask([SEND])
    reading = ["eth_chainId", *["eth_gasPrice"] * 4, "eth_chainId", "eth_gasPrice"]
    assert fake.methods == [*reading, SEND.method, SEND.method, "eth_chainId", SEND.method]


async def test_a_changed_chain_is_found_out_on_the_next_connection(node: Node, fake: FakeNode) -> None:
    await node.forward([PRICE])
    fake.results["eth_chainId"] = "0x1"
    fake.script.append(drop)
    for _ in range(2):
        with pytest.raises(WrongChainError):
            await node.forward([PRICE])
    assert len(answered(fake)) == 2
    fake.results["eth_chainId"] = "0x7a69"
    assert await node.forward([PRICE]) != []

    await node.ask([SEND])
    fake.results["eth_chainId"] = "0x1"
    fake.at("eth_sendRawTransaction", drop)
    with pytest.raises(NoNodeError):  # it may have been taken on the former chain
        await node.ask([SEND])
    with pytest.raises(WrongChainError):
        await node.ask([SEND])
    fake.results["eth_chainId"] = "0x7a69"
    await node.ask([SEND])
    assert len(fake.sent()) == 3


@each_row("method", ["evm_revert", "anvil_reset", "hardhat_dropTransaction", "evm_setAccountNonce"])
async def test_listeners_hear_that_the_node_is_set_back(node: Node, fake: FakeNode, method: str) -> None:
    heard = AsyncMock()
    node.on_set_back(heard)
    fake.results[method] = False
    await node.forward([RpcCall(method, [])])
    fake.results[method] = RpcFailure(-32000, "no")
    await node.forward([RpcCall(method, []), PRICE])
    fake.results["evm_mine"] = True
    await node.forward([RpcCall("evm_mine", [])])
    assert heard.await_count == 0

    fake.results[method] = None if "Tr" in method else True
    await node.forward([PRICE, RpcCall(method, [])])
    assert heard.await_count == 1


@pytest.mark.parametrize(("untold", "reason"), [
    (body("wait", 503), "HTTP status 503"), (body("wait"), "does not speak JSON-RPC"),
    (says(-32603, "not yet"), "does not report its chain"),
    (body('{"jsonrpc":"2.0","id":1,"result":"0x0"}'), "does not report its chain"),
])  # fmt: skip
async def test_a_connection_of_no_known_chain_is_not_used(
    node: Node, fake: FakeNode, untold: Answer, reason: str
) -> None:
    fake.at("eth_chainId", untold)
    with pytest.raises(NoNodeError, match=reason):
        await node.ask([SEND])
    assert fake.methods == ["eth_chainId"]
    await node.ask([SEND])
    assert fake.methods == ["eth_chainId", "eth_chainId", SEND.method]


async def test_a_connection_on_which_the_chain_has_changed_is_not_used(node: Node, fake: FakeNode) -> None:
    await node.ask([SEND])
    fake.results["eth_chainId"] = "0x1"
    with pytest.raises(WrongChainError):
        await node.forward([PRICE])
    with pytest.raises(WrongChainError):
        await node.ask([SEND])
    assert len(fake.sent()) == 1


def asked(fake: FakeNode) -> list[list[str]]:
    """The methods of each request."""
    return [request.methods for request in fake.requests]


ANEW = [["eth_chainId"], ["eth_chainId", SEND.method]]
"""The calls of a send to a node that closes every connection."""


async def test_a_node_that_closes_connections_is_sent_to_with_its_chain(node: Node, fake: FakeNode) -> None:
    fake.closes_connections = True
    sent = [await node.ask([SEND]) for _ in range(2)]
    assert sent[0] == sent[1]
    assert await node.ask([PRICE, SEND]) == ["0x3b9aca00", *sent[0]]
    assert asked(fake) == [*ANEW, *ANEW, ["eth_chainId"], ["eth_chainId", PRICE.method, SEND.method]]


@each_row("is_silent", [False, True])
async def test_a_proxy_that_closes_every_connection_is_sent_to(fake: FakeNode, is_silent: bool) -> None:
    async with open_closing_proxy(fake.url, is_silent=is_silent) as url, Node(url, 5.0, Stopping(0)) as node:
        for _ in range(3):
            assert len(await node.ask([SEND])) == 1
            assert await node.forward([PRICE]) != []
    assert len(fake.sent()) >= 3


async def test_a_node_that_closes_connections_may_change_its_chain(node: Node, fake: FakeNode) -> None:
    fake.closes_connections = True
    chains = iter(["0x7a69", "0x1", "0x1"])
    fake.results["eth_chainId"] = lambda: next(chains)
    with pytest.raises(NoNodeError, match="may have been taken on another chain"):
        await node.ask([SEND])
    assert asked(fake) == [*ANEW, ["eth_chainId"]]


@pytest.mark.parametrize("refusal", [says(-32600, "no batches"), body("no batches", 400), body("what?")])
async def test_a_node_that_closes_every_connection_and_refuses_batches_is_sent_to_at_once(
    node: Node, fake: FakeNode, refusal: Answer
) -> None:
    fake.closes_connections = True

    async def refuse(node: FakeNode, request: web.BaseRequest) -> web.StreamResponse:
        response = await refusal(node, request)
        response.force_close()
        return response

    fake.script.append(refuse)
    assert len(await node.ask([SEND])) == 1
    assert asked(fake) == [*ANEW, [SEND.method]]


async def test_only_the_first_of_closed_connections_is_announced(node: Node, fake: FakeNode) -> None:
    fake.closes_connections = True
    heard: list[None] = []
    node.on_connected(lambda: heard.append(None))

    for _ in range(3):
        await node.ask([PRICE])
        await node.forward([PRICE])
    assert len(heard) == 1

    fake.at("eth_chainId", body("sorry", 503))
    with pytest.raises(NoNodeError):
        await node.ask([PRICE])
    await node.ask([PRICE])
    assert len(heard) == 2


RESULT, ERROR = '{"jsonrpc":"2.0","id":1,"result":%s}', '{"jsonrpc":"2.0","id":1,"error":%s}'


@each_row("answer", [
    RESULT, '{"jsonrpc":"2.0","result":%s,"id":1}', ' {\n "id" : 1 ,\t"result" : %s , "jsonrpc" : "2.0" } ',
    '{"jsonrpc":"2.0","id":1,"result":%s,"error":null}',
    '{"jsonrpc":"2.0","id":"1","result":%s,"usage":{"a":[1]}}',
])  # fmt: skip
@each_row(
    "result", ['"0x1"', "null", '{"a": 1.50, "b":[1e3,123456789012345678901234567890], "a\\u0041":"}"}', "[]"]
)
def test_results_are_read_as_they_are_written(answer: str, result: str) -> None:
    (read,) = read_answers((answer % result).encode(), 1)
    assert isinstance(read, bytes)
    assert read.strip() == result.encode()


LEFT_OUT = "The node's answer leaves this call of the batch out."


@each_row(("answer", "expected"), [
    (ERROR % '{"code":3,"message":"no"}', [(3, "no", None)]),
    (ERROR % '{"code":3,"message":"no","data":null}', [(3, "no", b"null")]),
    (ERROR % '{"code":3,"message":"no","data":[ 1.0]}', [(3, "no", b"[ 1.0]")]),
    (ERROR % '{"code":"x","message":5}', [(-32603, "The node gave no reason.", None)]),
    (
        '[{"jsonrpc":"2.0","id":3,"result":"c"}, {"jsonrpc":"2.0","id":9,"result":"?"},'
        ' {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}]',
        [(-32601, "no", None), (-32603, LEFT_OUT, None), b'"c"'],
    ),
    (
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no batches"}}',
        [(-32600, "no batches", None)] * 2,
    ),
])  # fmt: skip
def test_answers_are_in_the_order_of_the_calls_with_their_errors(answer: str, expected: list[Any]) -> None:
    read = read_answers(answer.encode(), len(expected))
    assert [
        (each.rpc_code, each.detail, orjson.dumps(each.data) if each.has_data else None)
        if isinstance(each, NodeError)
        else each
        for each in read
    ] == expected


GARBAGE = [
    *(b"", b"<html>", b"[]", b"{}", b"null", b"{1:2}", (ERROR % '"text"').encode()),
    *((RESULT % result).encode() for result in ("1}", "NaN", "[" * 100_000 + "]" * 100_000)),
    *((RESULT % 1).encode()[:-1], (RESULT % '"?"').encode().replace(b"?", b"\xff")),
]


@each_row("answer", GARBAGE, ids=range(len(GARBAGE)))
def test_an_answer_that_is_no_json_rpc_is_called_so(answer: bytes) -> None:
    for count in (1, 2):
        if (answer, count) == (b"[]", 2):
            assert all(isinstance(each, NodeError) for each in read_answers(answer, count))
        else:
            with pytest.raises(NoNodeError, match="does not speak JSON-RPC"):
                read_answers(answer, count)


@each_row("status", [301, 429, 503])
async def test_a_status_other_than_200_is_in_the_error(node: Node, fake: FakeNode, status: int) -> None:
    fake.script.append(body("sorry", status))
    with pytest.raises(NoNodeError, match=f"HTTP status {status}"):
        await node.forward([PRICE])
    fake.at("eth_gasPrice", body('{"jsonrpc":"2.0","id":1,"result":"0x1"}', status))
    with pytest.raises(NoNodeError, match=f"HTTP status {status}"):
        await node.ask([PRICE])

    answer = '{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"slow down"}}'
    fake.script.append(body(answer, status))
    (error,) = await node.forward([PRICE])
    assert isinstance(error, NodeError)
    assert error.rpc_code == -32005


async def test_calls_that_wait_behind_a_failure_fail_at_once(fake: FakeNode, pass_time: PassTime) -> None:
    async with Node(fake.url, 20, Stopping(0)) as node:
        attempt = connections.new_attempt()
        fake.script.append(hang)
        asking = asyncio.create_task(node.ask([PRICE]))
        await fake.asked(PRICE.method)
        await pass_time(20)
        with pytest.raises(NoNodeError):
            await asking
        requests = len(fake.requests)
        with pytest.raises(NoNodeError, match="no answer in time"):
            await node.ask([PRICE], attempt)
        assert len(fake.requests) == requests
        assert await node.ask([PRICE]) == ["0x3b9aca00"]
        assert await node.ask([PRICE], attempt) == ["0x3b9aca00"]


@each_row("method", ["evm_mine", "eth_getFilterChanges", "eth_unheardOf"])
async def test_a_call_with_effects_is_not_asked_twice(node: Node, fake: FakeNode, method: str) -> None:
    fake.requests.clear()
    fake.script.extend([drop, drop])
    with pytest.raises(NoNodeError, match="closed before an answer"):
        await node.forward([PRICE, RpcCall(method, [])])
    assert await node.forward([PRICE]) != []
    batch, *single = answered(fake)
    assert batch.methods == [PRICE.method, method]
    assert [request.methods for request in single] == [[PRICE.method]] * 2


async def test_a_huge_answer_is_not_read(node: Node, fake: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ANSWER_LIMIT_BYTES", 1_000)
    fake.results["eth_gasPrice"] = "0x" + "0" * 1_000
    with pytest.raises(NodeError, match="larger than 64 MiB"):
        await node.forward([PRICE])
    with pytest.raises(NoNodeError, match="larger than 64 MiB"):
        await node.ask([PRICE])
    assert await node.chain_id() == 31_337


async def test_credentials_are_sent_to_the_node_and_are_in_no_error(fake: FakeNode) -> None:
    url = f"http://someone:hunter2@127.0.0.1:{fake.port}/key/abc?token=xyz"
    with structlog.testing.capture_logs() as logs:
        async with Node(url, 5.0, Stopping(0)) as node:
            await node.forward([PRICE])
            fake.script.append(body("", 500))
            with pytest.raises(NoNodeError) as refused:
                await node.forward([PRICE])
        async with Node(url.replace(str(fake.port), "1"), 5.0, Stopping(0)) as node:
            with pytest.raises(NoNodeError) as away:
                await node.ask([PRICE])

    (request, _) = answered(fake)
    assert request.headers["Authorization"] == "Basic c29tZW9uZTpodW50ZXIy"
    assert request.path == "/key/abc?token=xyz"
    for secret in ("hunter2", "abc", "xyz", "someone"):
        assert secret not in f"{refused.value} {away.value} {logs}"


async def test_calls_to_the_node_end_when_the_server_stops(fake: FakeNode) -> None:
    stopping = Stopping(0)
    async with Node(fake.url, 60, stopping) as node:
        fake.script.append(hang)
        asking = asyncio.create_task(node.forward([PRICE]))
        await fake.asked("eth_gasPrice")
        stopping.close()
        with pytest.raises(NoNodeError, match="This server stops"):
            await asking


async def test_nothing_is_asked_once_another_process_may_have_the_wallet(fake: FakeNode) -> None:
    require_wallet = Mock()
    async with Node(fake.url, 5.0, Stopping(0), require_wallet=require_wallet) as node:
        await node.ask([SEND])
        asked = len(fake.requests)
        require_wallet.side_effect = NoNodeError("It is elsewhere.")
        with pytest.raises(NoNodeError, match="elsewhere"):
            await node.ask([SEND])
        assert len(fake.requests) == asked
        require_wallet.side_effect = None
        await node.ask([SEND])


@given(st.binary() | st.text().map(str.encode) | JSON.map(lambda value: json.dumps(value).encode()))
def test_anything_else_is_no_answer(body: bytes) -> None:
    for count in (1, 2):
        try:
            answers = read_answers(body, count)
        except NoNodeError:
            continue
        assert len(answers) == count
        assert all(isinstance(each, bytes | NodeError) for each in answers)


@given(st.lists(st.tuples(st.text(), JSON), min_size=1, max_size=4))
def test_calls_are_written_as_they_are(calls: list[tuple[str, Any]]) -> None:
    document = json.loads(write_calls([RpcCall(method, params) for method, params in calls]))
    requests = document if len(calls) > 1 else [document]
    assert [request["id"] for request in requests] == list(range(1, len(calls) + 1))
    assert [(request["method"], request.get("params")) for request in requests] == calls
