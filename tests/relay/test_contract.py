"""The bridge's table, row by row, its greeting, ids in its paths, and payloads byte for byte."""

from dataclasses import dataclass
from itertools import product
from uuid import UUID

from bridge_server.kernel.version import NAME, REPOSITORY, VERSION
from tests.relay.polls import V07_PATH
from tests.support.asking import ask, pointers
from tests.support.bridge_client import BridgeClient
from tests.support.rows import each_row

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Row:
    """One row. CALL is a call with a status, PENDING one without; FRESH is a session without details.

    NEW is the id told, TOMORROW a day ahead, SOON an hour. `told_07` is what generation 0.7 is told, where
    that differs.
    """

    method: str
    path: str
    sent: bytes | None
    status: int
    content_type: str | None
    told: str
    told_07: str | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.status}"


_INFO = f'{{"name":"{NAME}","repository":"{REPOSITORY}","version":"{VERSION}"}}'
_GREETING = f"Hello World, this is {NAME} v{VERSION}"
_PAYLOAD = b'{"encryptionPayload":"e"}'
_UPDATE = b'{"encryptionPayload":"e","push":{"type":"t","token":"k","webhook":"https://w.example"}}'
_CALL = b'{"encryptionPayload":"e","dappName":"d"}'
_HOOK = b'{"topic":"SESSION","webhook":"https://w.example"}'

ROWS = [
    Row(
        *("POST", "/session/new", None, 200, _JSON, '{"sessionId":"NEW"}'),
        '{"sessionId":"NEW","expires":TOMORROW}',
    ),
    Row("GET", "/session/FRESH", None, 204, None, ""),
    Row(
        *("GET", "/session/SESSION", None, 200, _JSON, '{"encryptionPayload":"approval"}'),
        '{"data":{"encryptionPayload":"approval","expires":TOMORROW}}',
    ),
    Row("PUT", "/session/SESSION", _UPDATE, 200, _JSON, '{"expires":TOMORROW}'),
    Row("DELETE", "/session/SESSION", None, 200, _JSON, '{"success":true}'),
    Row("POST", "/session/SESSION/call/new", _CALL, 200, _JSON, '{"callId":"NEW"}'),
    Row(
        *("GET", "/session/SESSION/call/CALL", None, 200, _JSON, '{"encryptionPayload":"first"}'),
        '{"data":{"encryptionPayload":"first","expires":SOON}}',
    ),
    Row(
        *("GET", "/session/SESSION/calls", None, 200, _JSON, '{"PENDING":{"encryptionPayload":"second"}}'),
        '{"data":{"PENDING":{"encryptionPayload":"second"}}}',
    ),
    Row("GET", "/session/FRESH/calls", None, 200, _JSON, "{}", '{"data":{}}'),
    Row("POST", "/call-status/PENDING/new", _PAYLOAD, 200, _JSON, '{"success":true}'),
    Row("GET", "/call-status/PENDING", None, 204, None, ""),
    Row(
        *("GET", "/call-status/CALL", None, 200, _JSON, '{"encryptionPayload":"status"}'),
        '{"data":{"encryptionPayload":"status","expires":SOON}}',
    ),
    Row("GET", "/hello", None, 200, _TEXT, _GREETING),
    Row("GET", "/info", None, 200, _JSON, _INFO),
    Row("POST", "/subscribe", _HOOK, 200, _JSON, '{"success":true}'),
]


@each_row(("row", "prefix"), product(ROWS, ["", V07_PATH]), ids=str)
async def test_a_row_is_answered_to_the_letter(bridge: BridgeClient, row: Row, prefix: str) -> None:
    told = row.told if not prefix or row.told_07 is None else row.told_07
    session_id = await bridge.open_session()
    await bridge.update(session_id)
    call_id, pending = [await bridge.request_call(session_id, payload) for payload in ("first", "second")]
    await bridge.answer(call_id)
    names = {
        "FRESH": await bridge.open_session(), "SESSION": session_id, "PENDING": pending, "CALL": call_id,
        "TOMORROW": str(bridge.clock.now_ms() + 86_400_000), "SOON": str(bridge.clock.now_ms() + 3_600_000),
    }  # fmt: skip

    def filled(text: str) -> str:
        for name, value in names.items():
            text = text.replace(name, value)
        return text

    sent = None if row.sent is None else filled(row.sent.decode()).encode()
    answer = await ask(bridge.server, row.method, prefix + filled(row.path), sent)

    assert (answer.status, answer.headers.get("Content-Type")) == (row.status, row.content_type)
    assert ("Content-Length" in answer.headers) == (row.status != 204)
    body = answer.body.decode()
    names["NEW"] = body.split('"')[3] if "NEW" in told else ""
    assert body == filled(told)
    if names["NEW"]:
        assert str(UUID(names["NEW"])) == names["NEW"]
        assert UUID(names["NEW"]).version == 7


async def test_no_other_path_is_one_of_generation_0_7(bridge: BridgeClient) -> None:
    for path in ("", "/", "/session", "/session/"):
        (await bridge.get(V07_PATH + path)).problem(404)
    (await ask(bridge.server, "POST", "/compat/v0.8/session/new")).problem(404)


# Ids in paths: capabilities of up to 128 characters; what does not look like one names nothing.

PLACES = [
    ("GET", "/session/{}"),
    ("PUT", "/session/{}"),
    ("DELETE", "/session/{}"),
    ("GET", "/session/{}/calls"),
    ("POST", "/session/{}/call/new"),
    ("GET", "/session/{}/call/0192"),
    ("GET", "/session/KNOWN/call/{}"),
    ("GET", "/call-status/{}"),
    ("POST", "/call-status/{}/new"),
]
ODD_IDS = [
    "", "%00", "%ff", "%2f", "%2e%2e", "%20", "%0d%0aX-Injected:%201", "%D9%A3", "..", "%7Bx%7D", "a;b",
    "%zz", "a%2Fcalls", "'%20OR%201=1--", "a" * 128, "a" * 129, "a" * 2_000,
]  # fmt: skip


@each_row("odd_id", ODD_IDS)
async def test_an_id_that_names_nothing_is_answered_with_a_problem(
    bridge: BridgeClient, session_id: str, odd_id: str
) -> None:
    for method, place in PLACES:
        path = place.replace("KNOWN", session_id).format(odd_id)

        answer = await ask(bridge.server, method, path, b'{"encryptionPayload":"","dappName":"Dapp"}')

        assert answer.status == 404 or odd_id == ""  # then slashes merge, and «new» may be the id
        answer.problem(405 if answer.status == 405 else 404)


async def test_an_id_may_be_percent_encoded(bridge: BridgeClient, session_id: str) -> None:
    encoded = "".join(f"%{ord(letter):02x}" for letter in session_id)

    assert (await bridge.session(encoded)).status == 204


async def test_the_case_of_an_id_matters(bridge: BridgeClient) -> None:
    session_id = next(i for i in [await bridge.open_session() for _ in range(20)] if i.upper() != i)

    (await bridge.session(session_id.upper())).problem(404)


async def test_a_call_is_found_under_its_own_session_only(bridge: BridgeClient) -> None:
    own, other = await bridge.open_session(), await bridge.open_session()
    call_id = await bridge.request_call(own)

    (await bridge.call(other, call_id)).problem(404)
    (await bridge.call("0192", call_id)).problem(404)
    assert (await bridge.call(own, call_id)).status == 200


# The encrypted payload: opaque, kept and returned byte for byte.

TEXTS = [
    '""',
    '"caf\\u00E9"',
    '"café"',
    '"\\ud83d\\ude00"',
    '"\\/ \\" \\\\ \\b\\f\\n\\r\\t \\u0000 \x7f"',
    '"looks like \\"}, \\"dappName\\": {[ JSON"',
    "{ \t}",
    '{"b":1,"a":2,"10":3,"9":4}',
    '{ "a" :\t1e2 ,\r\n"b": [ ] }',
    '{"beyond floats":[1e400,-1E+999,1.5e-999,"1e400",0.1e0400]}',
    '{"digits":' + "9" * 60_000 + "}",
    '{"zeros":[' + "0," * 100_000 + "0]}",
    '{"objects":[' + "{}," * 60_000 + '{"a": 1e999}]}',
    '{"long":123456789012345678901234567890,"exact":0.1000000000000000055511151231257827}',
    '{"zero":-0,"nought":-0.0,"hundred":1E+2,"tenth":0.10,"tiny":1e-400}',
    '{"":"","a/b":"~","encryptionPayload":"inner","dappName":null}',
    '{"é":"\\u00e9","\\u00ea":1}',
]


async def _through_the_session(bridge: BridgeClient, text: bytes) -> list[bytes]:
    session_id = await bridge.open_session()
    await bridge.update(session_id, "earlier")
    await bridge.session(session_id)
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


@each_row("text", ["null", "1", "-0.5", "1e400", "true", "false", "[]", '["payload"]', None])
async def test_a_payload_is_required_and_is_a_string_or_an_object(
    bridge: BridgeClient, text: str | None
) -> None:
    session_id = await bridge.open_session()
    call_id = await bridge.request_call(session_id)
    payload = b'"EncryptionPayload":""' if text is None else b'"encryptionPayload":' + text.encode()
    for method, path in (
        ("PUT", f"/session/{session_id}"),
        ("POST", f"/session/{session_id}/call/new"),
        ("POST", f"/call-status/{call_id}/new"),
    ):
        body = b"{" + payload + b',"dappName":"Dapp"}'

        problem = (await ask(bridge.server, method, path, body)).problem(400)

        if text != "1e400":  # no number of any parser's: the body is refused as a whole
            assert pointers(problem) == ["#/encryptionPayload"]
    assert (await bridge.session(session_id)).status == 204
    assert (await bridge.status(call_id)).status == 204
    assert await bridge.pending(session_id) == [call_id]
