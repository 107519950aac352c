"""JSON-RPC 2.0: reading bodies, and writing response objects."""

import json
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.web.json_rpc import (
    INVALID_REQUEST,
    MOST_CALLS,
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
    return json.dumps(
        {name: value for name, value in {**CALL, **members}.items() if value is not ...}
    ).encode()


def unreadable(body: bytes) -> Unreadable:
    """The result of reading a body that is no request."""
    request = read_requests(body)
    assert isinstance(request, Unreadable)
    return request


@each_row(
    "text",
    [
        *("0", "1", "-7", "9007199254740993", "18446744073709551616", "1" * 300),
        *("1.5", "-0.5", "1e+300", "1e2", "1E2", "1.0", "100.00", "-0", "-0.0", "0", "0e1", "1E-7"),
        *("123456789.123456789123456789", "1e-400", "1E400", "-1e400", "9" * 400, "9" * 5_000),
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


@each_row("body", [b'"\\"' * 100_000, b'{"id":1e400,' + b'"\\"' * 100_000, b'{"id":1e400,"' * 50_000])
def test_ids_in_what_is_no_json_are_looked_for_in_no_time(body: bytes) -> None:
    assert unreadable(body).error.code in (PARSE_ERROR, INVALID_REQUEST)


@each_row(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1e400,"method":"m","params":[1e400]}',
        b'{"jsonrpc":"2.0","id":1e400,"method":"m","params":[NaN]}',
        b'{"jsonrpc":"2.0","id":1e400.5,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1e400,"method":"m"}}',
        b'{"jsonrpc":"2.0","id":01e400,"method":"m"}',
    ],
)
def test_elsewhere_than_in_an_id_a_number_must_fit_a_float(body: bytes) -> None:
    assert unreadable(body).error.code == PARSE_ERROR


@given(
    st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.integers(-(10**40), 10**40), st.none())
)
def test_an_id_keeps_its_value_however_it_was_spelled(sent: Any) -> None:
    request = read_requests(spelled(id=sent))

    assert isinstance(request, MethodCall)
    assert request.id_text is not None
    assert json.loads(request.id_text) == sent


def test_without_an_id_it_is_a_notification() -> None:
    assert read_requests(spelled(id=...)) == MethodCall("m", [], None)


@each_row(("params", "read"), [([1], [1]), ({"a": 1}, {"a": 1}), (..., None)])
def test_params_are_an_array_or_an_object_or_left_out(params: Any, read: Any) -> None:
    assert read_requests(spelled(params=params)) == MethodCall("m", read, b"1")


@each_row("separators", [(",", ":"), (", ", ": "), (" ,\r\n", "\t: ")])
@each_row("number", [2**53 + 1, 2**64, -(2**63) - 1, 2**256 - 1])
def test_integers_are_exact(number: int, separators: tuple[str, str]) -> None:
    body = json.dumps({**CALL, "params": [number, {"n": number}]}, separators=separators).encode()

    assert read_requests(body) == MethodCall("m", [number, {"n": number}], b"1")


def test_unknown_members_are_ignored() -> None:
    assert read_requests(spelled(chainId="0x1", jsonrpc2=None)) == MethodCall("m", [], b"1")


@each_row(
    ("body", "code", "id_text", "words"),
    [
        (b"1", INVALID_REQUEST, b"null", "object"),
        (b'"m"', INVALID_REQUEST, b"null", "object"),
        (b"null", INVALID_REQUEST, b"null", "object"),
        (b"{}", INVALID_REQUEST, b"null", "jsonrpc"),
        (b"[]", INVALID_REQUEST, b"null", "empty"),
        (spelled(jsonrpc=...), INVALID_REQUEST, b"1", "jsonrpc"),
        (spelled(jsonrpc="1.0"), INVALID_REQUEST, b"1", "jsonrpc"),
        (spelled(jsonrpc=2.0), INVALID_REQUEST, b"1", "jsonrpc"),
        (spelled(method=...), INVALID_REQUEST, b"1", "method"),
        (spelled(method=1), INVALID_REQUEST, b"1", "method"),
        (spelled(method=None, id=...), INVALID_REQUEST, b"null", "method"),
        (spelled(params="bar"), INVALID_REQUEST, b"1", "params"),
        (spelled(params=None), INVALID_REQUEST, b"1", "params"),
        (spelled(params=0), INVALID_REQUEST, b"1", "params"),
        (spelled(id=True), INVALID_REQUEST, b"null", "id"),
        (spelled(id=[]), INVALID_REQUEST, b"null", "id"),
        (spelled(id={}), INVALID_REQUEST, b"null", "id"),
        (b"", PARSE_ERROR, b"null", "empty"),
        (b" ", PARSE_ERROR, b"null", "not JSON"),
        (b'{"jsonrpc":"2.0","method":"foobar,"params":"bar","baz]', PARSE_ERROR, b"null", "not JSON"),
        (
            b'[{"jsonrpc":"2.0","method":"m","id":"1"},{"jsonrpc":"2.0","method"]',
            PARSE_ERROR,
            b"null",
            "not JSON",
        ),
        (b'{"id":NaN}', PARSE_ERROR, b"null", "not JSON"),
        (b'{"id":"\\ud800"}', PARSE_ERROR, b"null", "not JSON"),
        (b'{"id":"\xff"}', PARSE_ERROR, b"null", "not JSON"),
        (b'{"n":' + b"9" * 400 + b"}", PARSE_ERROR, b"null", "JSON"),
        (b'{"id":1,"id":1}', INVALID_REQUEST, b"null", "'id' twice"),
        (spelled()[:-1] + b',"\\u0069d":1}', INVALID_REQUEST, b"null", "'id' twice"),
        (b'[{"params":[{"a":1,"a":2}]}]', INVALID_REQUEST, b"null", "'a' twice"),
        (b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), INVALID_REQUEST, b"null", "deeper"),
        (b"[" * 1_000 + b"]" * 1_000, INVALID_REQUEST, b"null", "deeper"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, INVALID_REQUEST, b"null", "deeper"),
        (b"[" * 100_000, INVALID_REQUEST, b"null", "deeper"),  # nobody reads on to see that it never ends
        (b"[" + b"0," * MOST_VALUES + b"0]", INVALID_REQUEST, b"null", f"{MOST_VALUES} values"),
    ],
)
def test_a_faulty_body_is_answered_with_its_fault(body: bytes, code: int, id_text: bytes, words: str) -> None:
    request = unreadable(body)

    assert (request.error.code, request.id_text) == (code, id_text)
    assert words in request.error.message


def test_a_batch_is_read_in_its_order_and_a_bad_element_spoils_only_itself() -> None:
    requests = read_requests(b"[%b,1,{},%b]" % (spelled(id=7), spelled(id=...)))

    assert isinstance(requests, list)
    assert requests[0] == MethodCall("m", [], b"7")
    assert [type(request) for request in requests[1:3]] == [Unreadable, Unreadable]
    assert requests[3] == MethodCall("m", [], None)


def test_a_batch_has_at_most_a_hundred_calls() -> None:
    requests = read_requests(b"[%b]" % b",".join([spelled()] * MOST_CALLS))
    too_many = unreadable(b"[%b]" % b",".join([spelled()] * (MOST_CALLS + 1)))

    assert isinstance(requests, list)
    assert len(requests) == MOST_CALLS
    assert too_many.error.code == INVALID_REQUEST
    assert "101" in too_many.error.message


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
    requests = read_requests(body)

    assert isinstance(requests, MethodCall | Unreadable | list)
