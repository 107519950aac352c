"""`POST /rpc` speaks JSON-RPC 2.0: requests, batches, notifications, errors, and turns for other requests.

White-box: no client sees when it had to wait.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from io import BytesIO
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import bridge_server.assembly.application
from bridge_server.kernel.errors import BridgeError, ConflictError, NotFoundError
from bridge_server.wallet.models import NodeError, TransactionRefusedError
from bridge_server.wallet.rpc import openrpc, routes
from bridge_server.wallet.rpc.routes import BatchTurns, SigningTurns
from bridge_server.wallet.rpc.wire import CODE_OF_KIND, rpc_error_of
from tests.ethereum.typed_data_examples import mail
from tests.support import waiting
from tests.support.asking import ask
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient, result_of
from tests.support.server import running_server
from tests.web import inputs

ACCOUNTS = {"jsonrpc": "2.0", "method": "eth_accounts", "params": []}
MESSAGE = "0x68656c6c6f"
WRONG: list[Any] = [
    *(None, True, 0, 1, -1, 1.5, 2**64, -(2**70), 10**300, "", "0x", "0x0", "0xzz", "é", "\u0000"),
    *("0x" + "00" * 20, "0x" + "11" * 32, "0x" + "00" * 65, DEVELOPMENT_ADDRESS, "0x" + "f" * 200),
    *([], [1], [[]], {}, {"a": 1}, {"from": DEVELOPMENT_ADDRESS}, {"from": None, "x": 2**70, "y": 1.5}),
    *({"from": DEVELOPMENT_ADDRESS, "to": 1}, {"types": {}, "domain": 2**70}, mail(), json.dumps(mail())),
]


@each_row(("document", "number", "code", "words"), [
    ({**ACCOUNTS, "id": 7, "jsonrpc": "1.0"}, 7, -32600, "jsonrpc"), ([], None, -32600, "empty"),
    ([ACCOUNTS] * 101, None, -32600, "101 calls"),
    ({**ACCOUNTS, "id": 10**30, "params": {}}, 10**30, -32602, "params must be an array: eth_accounts"),
    ({**ACCOUNTS, "id": 7, "params": "x"}, 7, -32600, "an array, or for the node's methods an object."),
    (b"nonsense", None, -32700, "is not JSON: "), (b'{"id":1,"id":1}', None, -32600, "twice"),
    (b'{"id":"\xff"}', None, -32700, "The body is not JSON: it is not UTF-8."),
    (b'{"params":[' + b"9" * 400 + b"]}", None, -32700, "The body has a number that is too large."),
])  # fmt: skip
async def test_malformed_requests_have_codes(
    rpc: RpcClient, document: Any, number: Any, code: int, words: str
) -> None:
    answer = await rpc.post(document if isinstance(document, bytes) else json.dumps(document).encode())
    assert json.loads(answer.body).keys() == {"jsonrpc", "id", "error"}
    assert (json.loads(answer.body)["id"], answer.json["error"]["code"]) == (number, code)
    assert words in answer.json["error"]["message"]


async def test_notifications_are_carried_out_and_not_answered(rpc: RpcClient) -> None:
    key_import = {**ACCOUNTS, "method": "personal_importRawKey", "params": ["11" * 32, "correct horse"]}
    documents: list[Any] = [
        *(ACCOUNTS, [ACCOUNTS], [ACCOUNTS, {**ACCOUNTS, "method": "eth_blockNumber"}], key_import),
        *({**ACCOUNTS, "method": "personal_nope"}, {**ACCOUNTS, "params": {"wrong": 1}}),
    ]
    for document in documents:
        answer = await rpc.post(orjson.dumps(document))
        assert (answer.status, answer.body) == (204, b""), document
    assert "0x19e7e376e7c213b7e7e7e46cc70a5dd086daff2a" in await rpc.call("eth_accounts")


async def test_a_body_is_posted_declared_as_json_and_has_at_most_a_mebibyte(rpc: RpcClient) -> None:
    body = orjson.dumps({**ACCOUNTS, "id": 1})
    for content_type in (None, "text/plain", "application/x-www-form-urlencoded"):
        (await rpc.post(body, content_type=content_type)).problem(415)
    assert "Say 'Content-Type:" in (await rpc.post(body, content_type="")).problem(415)["detail"]
    assert result_of((await rpc.post(body, content_type="application/json; charset=utf-8")).json)

    headers = {"Content-Type": "application/json"}
    for size, status in ((1_048_576, 200), (1_048_577, 413)):
        streamed = BytesIO(body.ljust(size))
        async with rpc.server.client.post(f"{rpc.server.url}/rpc", data=streamed, headers=headers) as answer:
            assert answer.status == status

    read = await ask(rpc.server, "GET", "/rpc")
    read.problem(405)
    assert read.headers["Allow"] == "OPTIONS, POST"  # pages of this machine may call development accounts


async def test_a_bad_element_spoils_only_itself_and_notifications_are_left_out(rpc: RpcClient) -> None:
    good = rpc.request("eth_chainId")
    notification = {name: value for name, value in good.items() if name != "id"}
    changes: list[dict[str, Any]] = [{"params": [1]}, {"method": "wallet_x"}, {"method": "eth_call"}]
    bad = [1, {"id": 5}, *({**good, **change} for change in changes)]
    answers = await rpc.send([notification, good, *bad, notification, good])
    codes = [answer.get("error", {}).get("code") for answer in answers]
    assert codes == [None, -32600, -32600, -32602, -32601, 4900, None]
    assert [answer["id"] for answer in answers] == [good["id"], None, 5, *[good["id"]] * 4]
    assert await rpc.send([good]) == [{"jsonrpc": "2.0", "id": good["id"], "result": "0x7a69"}]


async def test_calls_of_the_wallet_follow_one_another(rpc: RpcClient) -> None:
    passphrase = "correct horse"
    address = await rpc.call("personal_importRawKey", "22" * 32, passphrase)
    sign = ("personal_sign", MESSAGE, address)
    unlock, lock = ("personal_unlockAccount", address, passphrase), ("personal_lockAccount", address)
    answers = await rpc.batch([sign, unlock, sign, lock, sign])
    assert ["error" in answer for answer in answers] == [True, False, False, False, True]


assert bridge_server.assembly.application


def kinds(root: type[BridgeError] = BridgeError) -> Iterator[type[BridgeError]]:
    """Every kind of failure that there is."""
    for kind in root.__subclasses__():
        yield kind
        yield from kinds(kind)


def test_every_kind_has_a_code() -> None:
    assert [kind for kind in kinds() if not any(each in CODE_OF_KIND for each in kind.__mro__)] == []


@each_row(("error", "expected"), [
    (ConflictError("x"), (-32000, "x", None, False)), (NotFoundError("x"), (-32001, "x", None, False)),
    (NodeError(3, "reverted", None, has_data=True), (3, "reverted", None, True)),
    (NodeError(3, "reverted"), (3, "reverted", None, False)),
    (TransactionRefusedError("nonce too low", {"a": 1}), (-32003, "nonce too low", {"a": 1}, True)),
])  # fmt: skip
def test_a_failure_becomes_its_code_with_what_the_node_added(
    error: BridgeError, expected: tuple[Any, ...]
) -> None:
    written = rpc_error_of(error, "m", "id")
    assert (written.code, written.message, written.data, written.has_data) == expected


def test_an_unexpected_exception_is_not_described_to_the_client() -> None:
    told = rpc_error_of(KeyError("secret"), "m", "id")
    assert told.code == -32603
    assert "secret" not in told.message


@pytest.fixture(scope="module")
async def one_wallet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RpcClient]:
    """One wallet for all that is sent here."""
    folder = tmp_path_factory.mktemp("any")
    async with running_server(folder, dev_accounts=True, light_kdf=True) as server:
        yield RpcClient(server)


SLOW = ("personal_newAccount", "personal_importRawKey")
METHODS = [1, "eth_getBalance", *(row.name for row in openrpc.METHODS if row.name not in SLOW)]
VALUES = st.one_of(inputs.values, st.sampled_from(WRONG))
REQUESTS = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", 2]), "method": st.sampled_from(METHODS)},
    optional={"id": inputs.scalars, "params": st.one_of(st.lists(VALUES, max_size=3), inputs.values)},
)
SENDING = {"from": DEVELOPMENT_ADDRESS, "data": "0x", "nonce": "0x0"}


@given(requests=st.lists(REQUESTS, min_size=1, max_size=8))
@example(requests=[{"jsonrpc": "2.0", "id": 1, "method": "eth_sendTransaction", "params": [SENDING]}])
async def test_any_batch_is_answered_in_full(one_wallet: RpcClient, requests: list[dict[str, Any]]) -> None:
    answer = await one_wallet.post(json.dumps(requests).encode())
    answers = [] if answer.status == 204 else answer.json
    for each in answers:
        assert each.keys() in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
        if "error" in each:
            assert each["error"]["code"] != -32603, each
            assert each["error"]["message"]
    assert len(answers) >= sum("id" in request for request in requests)


def turns_while(*, others_wait: bool, threads_work: bool = False) -> SigningTurns:
    return SigningTurns(lambda: others_wait, lambda: threads_work)


async def pass_through(turns: SigningTurns) -> None:
    """Take a turn as a call does."""
    turn = turns.take()
    if turn is not None:
        await turn


@each_row(("others_wait", "passed"), [(True, 1), (False, 8)])
async def test_calls_pass_at_once_while_no_other_request_waits(others_wait: bool, passed: int) -> None:
    turns = turns_while(others_wait=others_wait)
    assert [turns.take() is None for _ in range(8)] == [True] * passed + [False] * (8 - passed)


async def test_waiting_calls_pass_in_order_one_in_each_turn() -> None:
    turns = turns_while(others_wait=True)
    passed: list[int] = []

    async def call(number: int) -> None:
        await pass_through(turns)
        passed.append(number)

    calls = [asyncio.ensure_future(call(number)) for number in range(8)]
    passed_by_turn = [0]
    while len(passed) < len(calls):
        await asyncio.sleep(0)
        passed_by_turn.append(len(passed))

    assert passed == list(range(len(calls)))
    assert all(after - before <= 1 for before, after in pairwise(passed_by_turn))
    await asyncio.gather(*calls)


async def test_a_client_that_left_costs_no_turn() -> None:
    turns = turns_while(others_wait=True)
    left = [turn for turn in (turns.take() for _ in range(50)) if turn is not None]
    stayed = turns.take()
    for turn in left:
        turn.cancel()
    await waiting.turns(2)
    assert stayed is not None
    assert stayed.done()


@each_row("others_wait", [True, False])
async def test_a_batch_lets_the_event_loop_turn_before_it_ends(others_wait: bool) -> None:
    batch = BatchTurns(turns_while(others_wait=others_wait))
    others = asyncio.ensure_future(waiting.turns(3))
    while not others.done():
        await batch.next()


async def test_turns_have_pauses_while_threads_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_SECONDS_APART", 3600)
    turns = turns_while(others_wait=True, threads_work=True)
    turns.take()
    turn = turns.take()
    await waiting.turns(5)
    assert turn is not None
    assert not turn.done()


async def test_calls_pass_while_threads_work() -> None:
    turns = turns_while(others_wait=True, threads_work=True)
    await asyncio.gather(*(pass_through(turns) for _ in range(5)))
