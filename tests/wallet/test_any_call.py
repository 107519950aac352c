"""Any call with any parameters: an answer of JSON-RPC, never the server's fault."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import example, given
from hypothesis import strategies as st

from tests.ethereum.typed_data_examples import mail
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient
from tests.support.server import running_server
from tests.web import inputs

pytestmark = pytest.mark.asyncio(loop_scope="module")


METHODS = [
    "personal_sign",
    "eth_sign",
    "eth_signTypedData",
    "eth_signTypedData_v3",
    "eth_signTypedData_v4",
    "eth_sendTransaction",
    "eth_signTransaction",
    "eth_sendRawTransaction",
    "eth_accounts",
    "eth_requestAccounts",
    "eth_chainId",
    "net_version",
    "web3_clientVersion",
    "personal_listAccounts",
    "personal_newAccount",
    "personal_importRawKey",
    "personal_unlockAccount",
    "personal_lockAccount",
    "personal_ecRecover",
    "wallet_getQueuedTransaction",
    "wallet_getQueuedTransactions",
    "eth_getBalance",
]
WRONG: list[Any] = [
    *(None, True, 0, 1, -1, 1.5, 2**64, -(2**70), 10**300, "", "0x", "0x0", "0xzz", "é", "\u0000"),
    *("0x" + "00" * 20, "0x" + "11" * 32, "0x" + "00" * 65, DEVELOPMENT_ADDRESS, "0x" + "f" * 200),
    *([], [1], [[]], {}, {"a": 1}, {"from": DEVELOPMENT_ADDRESS}, {"from": None, "x": 2**70, "y": 1.5}),
    *({"from": DEVELOPMENT_ADDRESS, "to": 1}, {"types": {}, "domain": 2**70}, mail(), json.dumps(mail())),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rpc(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RpcClient]:
    """One wallet for all that is sent here."""
    folder = tmp_path_factory.mktemp("any")
    async with running_server(folder, dev_accounts=True, light_kdf=True) as server:
        yield RpcClient(server)


def assert_explained(answer: Any) -> None:
    """The answer to one call is a response object, and none of a bug."""
    assert answer.keys() in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    if "error" in answer:
        assert answer["error"]["code"] != -32603, answer
        assert answer["error"]["message"]


async def ask(rpc: RpcClient, method: str, params: Any) -> Any:
    """The answer, once it is seen to be sound. The spelling has spaces, and integers of any size."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    answer = (await rpc.post(body)).json
    assert_explained(answer)
    return answer


@each_row("method", METHODS)
async def test_wrong_parameters_at_every_place_get_a_clear_error(rpc: RpcClient, method: str) -> None:
    for wrong in WRONG:
        for params in ([wrong], [DEVELOPMENT_ADDRESS, wrong], [wrong, DEVELOPMENT_ADDRESS], [wrong] * 4):
            await ask(rpc, method, params)
        await ask(rpc, method, {"from": wrong})

    assert DEVELOPMENT_ADDRESS in (await ask(rpc, "eth_accounts", []))["result"]


_QUICK = [method for method in METHODS if method not in ("personal_newAccount", "personal_importRawKey")]
_value = st.one_of(inputs.values, st.sampled_from(WRONG))


@given(method=st.sampled_from(_QUICK), params=st.lists(_value, max_size=4))
@example(method="eth_sendTransaction", params=[{"from": DEVELOPMENT_ADDRESS, "data": "0x", "nonce": "0x0"}])
async def test_any_parameters_get_a_result_or_a_clear_error(
    rpc: RpcClient, method: str, params: list[Any]
) -> None:
    await ask(rpc, method, params)


@given(body=inputs.bodies)
async def test_any_body_gets_a_response_or_a_clear_error(rpc: RpcClient, body: bytes) -> None:
    answer = await rpc.post(body)

    if answer.status == 204:
        return
    answers = answer.json
    for each in answers if isinstance(answers, list) else [answers]:
        assert_explained(each)


@given(
    requests=st.lists(
        st.fixed_dictionaries(
            {"jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", 2]), "method": st.sampled_from([*_QUICK, 1])},
            optional={"id": inputs.scalars, "params": st.one_of(st.lists(_value, max_size=3), inputs.values)},
        ),
        min_size=1,
        max_size=8,
    )
)
async def test_any_batch_has_an_answer_for_each_call(rpc: RpcClient, requests: list[dict[str, Any]]) -> None:
    answer = await rpc.post(json.dumps(requests).encode())

    answers = [] if answer.status == 204 else answer.json
    for each in answers:
        assert_explained(each)
    assert len(answers) >= sum("id" in request for request in requests)
