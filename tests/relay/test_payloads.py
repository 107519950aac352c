"""The encrypted payload: opaque, kept and returned byte for byte."""

import pytest

from tests.support.asking import ask
from tests.support.bridge_client import BridgeClient
from tests.support.problems import pointers
from tests.support.rows import each_row

TEXTS = [
    '""',
    '"plain"',
    '"caf\\u00e9"',
    '"caf\\u00E9"',
    '"café"',
    '"\\ud83d\\ude00"',
    '"😀"',
    '"\\/ \\" \\\\ \\b\\f\\n\\r\\t \\u0000 \x7f"',
    '"looks like \\"}, \\"dappName\\": {[ JSON"',
    "{}",
    "{ \t}",
    '{"data":"00","hmac":"11","iv":"22"}',
    '{"b":1,"a":2,"10":3,"9":4}',
    '{ "a" :\t1e2 ,\r\n"b": [ ] }',
    '{"beyond floats":[1e400,-1E+999,1.5e-999,"1e400",0.1e0400]}',
    '{"digits":' + "9" * 60_000 + "}",
    '{"zeros":[' + "0," * 100_000 + "0]}",
    '{"objects":[' + "{}," * 60_000 + '{"a": 1e999}]}',
    '{"long":123456789012345678901234567890,"exact":0.1000000000000000055511151231257827}',
    '{"zero":-0,"nought":-0.0,"hundred":1E+2,"tenth":0.10,"tiny":1e-400}',
    '{"":"","a/b":"~","encryptionPayload":"inner","dappName":null}',
    '{"a":{"b":[{"c":null},true,false,[[]],{}]}}',
    '{"é":"\\u00e9","\\u00ea":1}',
]


async def _through_the_session(bridge: BridgeClient, text: bytes) -> list[bytes]:
    session_id = await bridge.open_session()
    body = b'{"push":null,"encryptionPayload":' + text + b"}"
    await ask(bridge.server, "PUT", f"/session/{session_id}", body)
    return [(await bridge.session(session_id)).body, (await bridge.session(session_id)).body]


async def _through_a_call(bridge: BridgeClient, text: bytes) -> list[bytes]:
    session_id = await bridge.open_session()
    body = b'\r\n{ "encryptionPayload"  :\t' + text + b' , "dappName":"Dapp" }\n'
    call_id = (await ask(bridge.server, "POST", f"/session/{session_id}/call/new", body)).json["callId"]
    all_calls = (await bridge.calls(session_id)).body
    one, end = b'{"' + call_id.encode() + b'":', b"}"
    assert all_calls.startswith(one)
    assert all_calls.endswith(end)
    return [(await bridge.call(session_id, call_id)).body, all_calls[len(one) : -len(end)]]


async def _through_a_status(bridge: BridgeClient, text: bytes) -> list[bytes]:
    call_id = await bridge.request_call(await bridge.open_session())
    body = b'{"unknown":{"x":[1.0]},"encryptionPayload":' + text + b',"more":"y"}'
    await ask(bridge.server, "POST", f"/call-status/{call_id}/new", body)
    return [(await bridge.status(call_id)).body, (await bridge.status(call_id)).body]


@each_row("text", TEXTS, ids=range(len(TEXTS)))
async def test_a_payload_comes_back_byte_for_byte(bridge: BridgeClient, text: str) -> None:
    for exchange in (_through_the_session, _through_a_call, _through_a_status):
        bodies = await exchange(bridge, text.encode())

        assert bodies == [b'{"encryptionPayload":' + text.encode() + b"}"] * 2


@pytest.mark.parametrize("text", ["null", "1", "-0.5", "1e400", "true", "false", "[]", '["payload"]'])
@pytest.mark.parametrize("route", ["session", "call", "status"])
async def test_a_payload_is_a_string_or_an_object(
    bridge: BridgeClient, session_id: str, route: str, text: str
) -> None:
    call_id = await bridge.request_call(session_id)
    method, path = {
        "session": ("PUT", f"/session/{session_id}"),
        "call": ("POST", f"/session/{session_id}/call/new"),
        "status": ("POST", f"/call-status/{call_id}/new"),
    }[route]
    body = b'{"encryptionPayload":' + text.encode() + b',"dappName":"Dapp"}'

    problem = (await ask(bridge.server, method, path, body)).problem(400)

    if text != "1e400":  # no number of any parser's: the body is refused as a whole
        assert pointers(problem) == ["#/encryptionPayload"]
    assert (await bridge.session(session_id)).status == 204
    assert (await bridge.status(call_id)).status == 204
    assert await bridge.pending(session_id) == [call_id]


@each_row("route", ["session", "call", "status"])
async def test_a_payload_is_required(bridge: BridgeClient, session_id: str, route: str) -> None:
    call_id = await bridge.request_call(session_id)
    method, path = {
        "session": ("PUT", f"/session/{session_id}"),
        "call": ("POST", f"/session/{session_id}/call/new"),
        "status": ("POST", f"/call-status/{call_id}/new"),
    }[route]

    problem = (await bridge.send(method, path, {"dappName": "Dapp", "EncryptionPayload": ""})).problem(400)

    assert pointers(problem) == ["#/encryptionPayload"]


async def test_a_payload_that_was_read_is_forgotten_once_it_is_replaced(
    bridge: BridgeClient, session_id: str
) -> None:
    path = f"/session/{session_id}"
    await ask(bridge.server, "PUT", path, b'{"encryptionPayload":"e"}')
    await bridge.session(session_id)

    await ask(bridge.server, "PUT", path, b'{"encryptionPayload":"\\u0065"}')

    assert (await bridge.session(session_id)).body == b'{"encryptionPayload":"\\u0065"}'
