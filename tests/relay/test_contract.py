"""The bridge's table, row by row, its greeting, ids in its paths, and payloads byte for byte."""

from uuid import UUID

from bridge_server.kernel.version import NAME, REPOSITORY, VERSION
from tests.relay.polls import V07_PATH
from tests.support.asking import ask, pointers
from tests.support.bridge_client import BridgeClient
from tests.support.rows import each_row

_UPDATE = b'{"encryptionPayload":"e","push":{"type":"t","token":"k","webhook":"https://w.example"}}'
# What is asked and sent, and the answer; what generation 0.7 is told, where that differs. CALL is a call with
# a status, PENDING one without; FRESH is a session without details. NEW is the id told, TOMORROW a day ahead,
# SOON an hour.
ROWS: list[tuple[str, bytes | None, str, str]] = [
    ("POST /session/new", None, '{"sessionId":"NEW"}', '{"sessionId":"NEW","expires":TOMORROW}'),
    ("GET /session/FRESH", None, "", ""),
    (
        *("GET /session/SESSION", None, '{"encryptionPayload":"approval"}'),
        '{"data":{"encryptionPayload":"approval","expires":TOMORROW}}',
    ),
    ("PUT /session/SESSION", _UPDATE, '{"expires":TOMORROW}', ""),
    ("DELETE /session/SESSION", None, '{"success":true}', ""),
    ("POST /session/SESSION/call/new", b'{"encryptionPayload":"e","dappName":"d"}', '{"callId":"NEW"}', ""),
    (
        *("GET /session/SESSION/call/CALL", None, '{"encryptionPayload":"first"}'),
        '{"data":{"encryptionPayload":"first","expires":SOON}}',
    ),
    (
        *("GET /session/SESSION/calls", None, '{"PENDING":{"encryptionPayload":"second"}}'),
        '{"data":{"PENDING":{"encryptionPayload":"second"}}}',
    ),
    ("GET /session/FRESH/calls", None, "{}", '{"data":{}}'),
    ("POST /call-status/PENDING/new", b'{"encryptionPayload":"e"}', '{"success":true}', ""),
    ("GET /call-status/PENDING", None, "", ""),
    (
        *("GET /call-status/CALL", None, '{"encryptionPayload":"status"}'),
        '{"data":{"encryptionPayload":"status","expires":SOON}}',
    ),
    ("GET /hello", None, f"Hello World, this is {NAME} v{VERSION}", ""),
    ("GET /info", None, f'{{"name":"{NAME}","repository":"{REPOSITORY}","version":"{VERSION}"}}', ""),
    ("POST /subscribe", b'{"topic":"SESSION","webhook":"https://w.example"}', '{"success":true}', ""),
]


@each_row(
    ("asked", "sent", "told", "prefix"),
    [
        *((asked, sent, told, "") for asked, sent, told, _ in ROWS),
        *((asked, sent, told_07 or told, V07_PATH) for asked, sent, told, told_07 in ROWS),
    ],
)
async def test_a_row_is_answered_to_the_letter(
    bridge: BridgeClient, asked: str, sent: bytes | None, told: str, prefix: str
) -> None:
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

    method, path = filled(asked).split()
    body = None if sent is None else filled(sent.decode()).encode()
    answer = await ask(bridge.server, method, prefix + path, body)

    content_type = "text/plain; charset=utf-8" if path == "/hello" else "application/json"
    head = (answer.status, answer.headers.get("Content-Type"), "Content-Length" in answer.headers)
    assert head == ((200, content_type, True) if told else (204, None, False))
    if "NEW" in told:
        names["NEW"] = answer.body.decode().split('"')[3]
        assert str(UUID(names["NEW"])) == names["NEW"]
        assert UUID(names["NEW"]).version == 7
    assert answer.body.decode() == filled(told)


async def test_no_other_path_is_one_of_generation_0_7(bridge: BridgeClient) -> None:
    for path in ("", "/", "/session", "/session/"):
        (await bridge.get(V07_PATH + path)).problem(404)
    (await ask(bridge.server, "POST", "/compat/v0.8/session/new")).problem(404)


@each_row(
    "odd_id",
    [
        *("", "%00", "%ff", "%2f", "%2e%2e", "%20", "%0d%0aX-Injected:%201", "%D9%A3", "..", "%7Bx%7D"),
        *("a;b", "%zz", "a%2Fcalls", "'%20OR%201=1--", "a" * 128, "a" * 129, "a" * 2_000),
    ],
)
async def test_an_id_that_names_nothing_is_answered_with_a_problem(
    bridge: BridgeClient, session_id: str, odd_id: str
) -> None:
    for method, place in (
        ("GET", "/session/{}"),
        ("PUT", "/session/{}"),
        ("DELETE", "/session/{}"),
        ("GET", "/session/{}/calls"),
        ("POST", "/session/{}/call/new"),
        ("GET", "/session/{}/call/0192"),
        ("GET", "/session/KNOWN/call/{}"),
        ("GET", "/call-status/{}"),
        ("POST", "/call-status/{}/new"),
    ):
        path = place.replace("KNOWN", session_id).format(odd_id)

        answer = await ask(bridge.server, method, path, b'{"encryptionPayload":"","dappName":"Dapp"}')

        assert answer.status == 404 or odd_id == ""  # then slashes merge, and «new» may be the id
        answer.problem(405 if answer.status == 405 else 404)


async def test_an_id_may_be_percent_encoded_and_its_case_matters(bridge: BridgeClient) -> None:
    session_id = next(i for i in [await bridge.open_session() for _ in range(20)] if i.upper() != i)
    assert (await bridge.session("".join(f"%{ord(letter):02x}" for letter in session_id))).status == 204
    (await bridge.session(session_id.upper())).problem(404)


async def test_a_call_is_found_under_its_own_session_only(bridge: BridgeClient) -> None:
    own, other = await bridge.open_session(), await bridge.open_session()
    call_id = await bridge.request_call(own)
    (await bridge.call(other, call_id)).problem(404)
    (await bridge.call("0192", call_id)).problem(404)
    assert (await bridge.call(own, call_id)).status == 200


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


@each_row("text", TEXTS, ids=range(len(TEXTS)))
async def test_a_payload_comes_back_byte_for_byte(bridge: BridgeClient, text: str) -> None:
    session_id = await bridge.open_session()
    payload = b'"encryptionPayload":' + text.encode()
    await bridge.update(session_id, "earlier")
    await bridge.session(session_id)
    await ask(bridge.server, "PUT", f"/session/{session_id}", b'{"push":null,%b}' % payload)
    call = b'\r\n{ "encryptionPayload"  :\t%b , "dappName":"Dapp" }\n' % text.encode()
    path = f"/session/{session_id}/call/new"
    call_id = (await ask(bridge.server, "POST", path, call)).json["callId"]
    calls = (await bridge.calls(session_id)).body
    status = b'{"unknown":{"x":[1.0]},%b,"more":"y"}' % payload
    await ask(bridge.server, "POST", f"/call-status/{call_id}/new", status)

    assert calls == b'{"%b":{%b}}' % (call_id.encode(), payload)
    for _ in range(2):
        for read in (bridge.session(session_id), bridge.call(session_id, call_id), bridge.status(call_id)):
            assert (await read).body == b"{%b}" % payload


@each_row("text", ["null", "1", "-0.5", "1e400", "true", "false", "[]", '["payload"]', None])
async def test_a_payload_is_required_and_is_a_string_or_an_object(
    bridge: BridgeClient, text: str | None
) -> None:
    session_id = await bridge.open_session()
    call_id = await bridge.request_call(session_id)
    payload = '"EncryptionPayload":""' if text is None else f'"encryptionPayload":{text}'
    body = f'{{{payload},"dappName":"Dapp"}}'.encode()
    for method, path in (
        ("PUT", f"/session/{session_id}"),
        ("POST", f"/session/{session_id}/call/new"),
        ("POST", f"/call-status/{call_id}/new"),
    ):
        problem = (await ask(bridge.server, method, path, body)).problem(400)

        if text != "1e400":  # no number of any parser's: the body is refused as a whole
            assert pointers(problem) == ["#/encryptionPayload"]
    assert (await bridge.session(session_id)).status == (await bridge.status(call_id)).status == 204
    assert await bridge.pending(session_id) == [call_id]
