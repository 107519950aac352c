"""`POST /rpc` speaks JSON-RPC 2.0: status 200 and a response object, whatever was asked."""

import asyncio
import json
from io import BytesIO
from typing import Any

import orjson

from tests.support.asking import ask
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient, result_of

ACCOUNTS = {"jsonrpc": "2.0", "method": "eth_accounts", "params": []}


def error_of(answer: Any) -> tuple[Any, int]:
    """The id and the code of an answer that must be an error."""
    assert answer.keys() == {"jsonrpc", "id", "error"}
    assert isinstance(answer["error"]["message"], str)
    return answer["id"], answer["error"]["code"]


@each_row("number", ["1", '"a"', "null", "1.5", "123456789012345678901234567890", '"é\\n"'])
async def test_an_id_is_echoed(rpc: RpcClient, number: str) -> None:
    answer = await rpc.post(f'{{"jsonrpc":"2.0","id":{number},"method":"net_version"}}'.encode())

    assert answer.body == f'{{"jsonrpc":"2.0","id":{number},"result":"31337"}}'.encode()
    assert answer.headers["Content-Type"] == "application/json"


@each_row(
    ("document", "number", "code"),
    [
        ({**ACCOUNTS, "id": 7, "jsonrpc": "1.0"}, 7, -32600),
        ({"id": 7, "method": "eth_accounts"}, 7, -32600),
        ({"foo": "boo"}, None, -32600),
        ([], None, -32600),
        ([ACCOUNTS] * 101, None, -32600),
        ({**ACCOUNTS, "id": [1]}, None, -32600),
        ({**ACCOUNTS, "id": 1, "method": "personal_nope"}, 1, -32601),
        ({**ACCOUNTS, "id": 1, "method": "wallet_nope"}, 1, -32601),
        ({**ACCOUNTS, "id": 1, "method": "eth_signNope"}, 1, -32601),
        ({**ACCOUNTS, "id": 1, "params": [1]}, 1, -32602),
        ({**ACCOUNTS, "id": 1, "params": {}}, 1, -32602),
        ({**ACCOUNTS, "id": 1, "method": "eth_blockNumber"}, 1, 4900),
        ({**ACCOUNTS, "id": 1, "method": ""}, 1, 4900),
    ],
)
async def test_each_malformed_request_has_its_code(
    rpc: RpcClient, document: Any, number: Any, code: int
) -> None:
    assert error_of(await rpc.send(document)) == (number, code)


@each_row("body", [b"", b"nonsense", b"[" * 50, b'{"a":NaN}'])
async def test_a_body_that_is_no_json_is_a_parse_error(rpc: RpcClient, body: bytes) -> None:
    assert error_of((await rpc.post(body)).json) == (None, -32700)


@each_row("body", [b'{"id":1,"id":1}', b"[" * 1_000 + b"]" * 1_000, b"[1%b]" % (b",1" * 70_000)])
async def test_json_that_breaks_a_limit_is_an_invalid_request(rpc: RpcClient, body: bytes) -> None:
    assert error_of((await rpc.post(body)).json) == (None, -32600)


@each_row(
    "document",
    [
        ACCOUNTS,
        [ACCOUNTS],
        [ACCOUNTS, {**ACCOUNTS, "method": "eth_blockNumber"}],
        {**ACCOUNTS, "method": "personal_nope"},
        {**ACCOUNTS, "params": {"wrong": 1}},
    ],
)
async def test_notifications_are_not_answered(rpc: RpcClient, document: Any) -> None:
    answer = await rpc.post(orjson.dumps(document))

    assert (answer.status, answer.body) == (204, b"")


async def test_a_notification_is_carried_out(rpc: RpcClient) -> None:
    key, passphrase = "11" * 32, "correct horse"
    notification = {"jsonrpc": "2.0", "method": "personal_importRawKey", "params": [key, passphrase]}

    await rpc.post(orjson.dumps(notification))

    assert "0x19e7e376e7c213b7e7e7e46cc70a5dd086daff2a" in await rpc.call("eth_accounts")


@each_row("separators", [(",", ":"), (", ", ": "), (" ,\r\n", "\t: ")])
async def test_spaces_change_nothing(rpc: RpcClient, separators: tuple[str, str]) -> None:
    request = rpc.request("personal_sign", "0x68656c6c6f", DEVELOPMENT_ADDRESS)

    answer = await rpc.post(json.dumps(request, separators=separators).encode())

    assert result_of(answer.json) == await rpc.call("personal_sign", "0x68656c6c6f", DEVELOPMENT_ADDRESS)


@each_row("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
async def test_a_body_must_be_declared_as_json(rpc: RpcClient, content_type: str | None) -> None:
    answer = await rpc.post(orjson.dumps({**ACCOUNTS, "id": 1}), content_type=content_type)

    answer.problem(415)


async def test_json_may_be_declared_with_a_charset(rpc: RpcClient) -> None:
    body = orjson.dumps({**ACCOUNTS, "id": 1})

    answer = await rpc.post(body, content_type="application/json; charset=utf-8")

    assert DEVELOPMENT_ADDRESS in result_of(answer.json)


@each_row(("size", "status"), [(1_048_576, 200), (1_048_577, 413)])
async def test_a_body_has_at_most_a_mebibyte(rpc: RpcClient, size: int, status: int) -> None:
    body = orjson.dumps({**ACCOUNTS, "id": 1}).ljust(size)
    headers = {"Content-Type": "application/json"}

    async with rpc.server.client.post(f"{rpc.server.url}/rpc", data=BytesIO(body), headers=headers) as answer:
        assert answer.status == status


async def test_only_post_is_answered(rpc: RpcClient) -> None:
    answer = await ask(rpc.server, "GET", "/rpc")

    answer.problem(405)
    assert answer.headers["Allow"] == "OPTIONS, POST"  # pages of this machine may call development accounts


async def test_a_malformed_request_does_not_break_the_next(rpc: RpcClient) -> None:
    async with rpc.server.client.post(
        f"{rpc.server.url}/rpc", data=b"[" * 1000, headers={"Content-Type": "application/json"}
    ) as response:
        assert response.status == 200

    assert DEVELOPMENT_ADDRESS in await rpc.call("eth_accounts")


async def test_concurrent_clients_get_their_own_answers(rpc: RpcClient) -> None:
    others = [RpcClient(rpc.server) for _ in range(4)]
    messages = [f"0x{number:04x}" for number in range(40)]

    async def sign_all(client: RpcClient) -> list[str]:
        signing = [client.call("personal_sign", message, DEVELOPMENT_ADDRESS) for message in messages]
        return list(await asyncio.gather(*signing))

    signed = await asyncio.gather(*map(sign_all, others))

    assert len(set(signed[0])) == len(messages)
    assert all(each == signed[0] for each in signed)
