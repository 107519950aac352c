"""JSON-RPC 2.0: reading bodies, and writing response objects."""

import json
from typing import Any

import orjson
from hypothesis import given

from bridge_server.web.json_rpc import (
    INVALID_REQUEST,
    MOST_VALUES,
    PARSE_ERROR,
    MethodCall,
    RpcError,
    Unreadable,
    read_requests,
    write_batch,
    write_error,
    write_result,
)
from tests.support.rows import each_row
from tests.web import inputs
from tests.web.test_bodies import DEEPEST

CALL = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": []}


def spelled(**members: Any) -> bytes:
    """A request object; `...` leaves a member out."""
    sent = {name: value for name, value in {**CALL, **members}.items() if value is not ...}
    return json.dumps(sent).encode()


def unreadable(body: bytes) -> Unreadable:
    """The result of reading a body that is no request."""
    request = read_requests(body)
    assert isinstance(request, Unreadable)
    return request


@each_row(
    "text",
    [
        *("0", "-7", "9007199254740993", "18446744073709551616", "1" * 300, "1.5", "1e2", "1E2", "1.0"),
        *("100.00", "-0.0", "0e1", "123456789.123456789123456789", "1e-400", "-1E400", "9" * 5_000),
        *("null", '""', '"1"', '"é"', '"\\\\"', '"\\u0000"'),
    ],
)
def test_an_id_comes_back_as_it_was_sent(text: str) -> None:
    params = '["\\"id\\": 1e9", {"id": 2e9, "{": "}"}, "id"]'
    member = f'"jsonrpc":"2.0", "id" :\t{text},"method":"m","params":{params}'

    alone = read_requests(f" {{{member}}} ".encode())
    compact = read_requests(f'{{"jsonrpc":"2.0","id":{text},"method":"m"}}'.encode())
    batch = read_requests(
        f'\n[{{{member}}}, 7, [{{"id":1e1}}, 1e1], {{"method": "m"}},\n{{{member}}}]'.encode()
    )

    assert isinstance(batch, list)
    assert [each.id_text for each in batch] == [text.encode(), b"null", b"null", b"null", text.encode()]
    for each in (alone, batch[0], batch[-1]):
        assert isinstance(each, MethodCall)
        assert (each.id_text, each.params) == (text.encode(), json.loads(params))
    assert isinstance(compact, MethodCall)
    assert compact.id_text == text.encode()


def test_elsewhere_than_in_an_id_a_number_must_fit_a_float_and_ids_in_no_json_are_found_in_no_time() -> None:
    for body in (
        b'{"jsonrpc":"2.0","id":1e400,"method":"m","params":[1e400]}',
        b'{"jsonrpc":"2.0","id":1e400,"method":"m","params":[NaN]}',
        b'{"jsonrpc":"2.0","id":1e400.5,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1e400,"method":"m"}}',
        b'{"jsonrpc":"2.0","id":01e400,"method":"m"}',
    ):
        assert unreadable(body).error.code == PARSE_ERROR, body
    for body in (b'"\\"' * 100_000, b'{"id":1e400,' + b'"\\"' * 100_000, b'{"id":1e400,"' * 50_000):
        assert unreadable(body).error.code in (PARSE_ERROR, INVALID_REQUEST)


def test_integers_are_exact_and_unknown_members_ignored() -> None:
    for number in (2**53 + 1, 2**64, 2**256 - 1):
        request = {**CALL, "params": [number, {"n": number}], "chainId": "0x1"}
        for separators in ((",", ":"), (" ,\r\n", "\t: ")):
            body = json.dumps(request, separators=separators).encode()
            assert read_requests(body) == MethodCall("m", [number, {"n": number}], b"1")


@each_row(
    ("body", "code", "id_text", "words"),
    [
        (b"null", INVALID_REQUEST, b"null", "object"),
        (b"{}", INVALID_REQUEST, b"null", "jsonrpc"),
        (b"[]", INVALID_REQUEST, b"null", "empty"),
        (spelled(jsonrpc=2.0), INVALID_REQUEST, b"1", "jsonrpc"),
        (spelled(method=...), INVALID_REQUEST, b"1", "method"),
        (spelled(method=None, id=...), INVALID_REQUEST, b"null", "method"),
        (spelled(params=None), INVALID_REQUEST, b"1", "params"),
        (spelled(id=True), INVALID_REQUEST, b"null", "id"),
        (spelled(id=[]), INVALID_REQUEST, b"null", "id"),
        (b"", PARSE_ERROR, b"null", "empty"),
        (b" ", PARSE_ERROR, b"null", "not JSON"),
        (b'{"id":"\\ud800"}', PARSE_ERROR, b"null", "not JSON"),
        (b'{"n":' + b"9" * 400 + b"}", PARSE_ERROR, b"null", "too large"),
        (spelled()[:-1] + b',"\\u0069d":1}', INVALID_REQUEST, b"null", "'id' twice"),
        (b'[{"params":[{"a":1,"a":2}]}]', INVALID_REQUEST, b"null", "'a' twice"),
        (b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), INVALID_REQUEST, b"null", "deeper"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, INVALID_REQUEST, b"null", "deeper"),
        (b"[" * 100_000, INVALID_REQUEST, b"null", "deeper"),  # nobody reads on to see that it never ends
        (b"[" + b"0," * MOST_VALUES + b"0]", INVALID_REQUEST, b"null", f"{MOST_VALUES} values"),
    ],
)
def test_a_faulty_body_is_answered_with_its_fault(body: bytes, code: int, id_text: bytes, words: str) -> None:
    request = unreadable(body)
    assert (request.error.code, request.id_text) == (code, id_text)
    assert words in request.error.message


def test_a_result_has_no_error_and_an_error_no_result() -> None:
    result = write_result(b'"a"', None)
    error = write_error(b"1", RpcError(-32000, "No."))
    with_data = write_error(b"1", RpcError(3, "No.", None, has_data=True))
    assert orjson.loads(result) == {"jsonrpc": "2.0", "id": "a", "result": None}
    assert orjson.loads(error) == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "No."}}
    assert orjson.loads(with_data)["error"] == {"code": 3, "message": "No.", "data": None}
    assert orjson.loads(write_batch([result, error])) == [orjson.loads(result), orjson.loads(error)]


@given(inputs.bodies)
def test_any_body_is_read(body: bytes) -> None:
    assert isinstance(read_requests(body), MethodCall | Unreadable | list)
