"""Generation 0.7's table, row by row: what is sent under `/compat/v0.7`, and exactly what comes back."""

from uuid import UUID

from bridge_server.kernel.version import NAME, VERSION
from tests.support.asking import ask
from tests.support.bridge_client import BridgeClient
from tests.support.rows import each_row

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_PAYLOAD = {"data": "ab12", "hmac": "cd34", "iv": "ef56"}
_PAYLOAD_TEXT = b'{"data":"ab12","hmac":"cd34","iv":"ef56"}'


def enveloped(payload: bytes, expires_at_ms: int) -> bytes:
    return b'{"data":{"encryptionPayload":%b,"expires":%d}}' % (payload, expires_at_ms)


@each_row("body", [None, b"", b"{}", b"[1"])
async def test_a_new_session_is_answered_with_its_id_and_its_expiry(
    v07: BridgeClient, body: bytes | None
) -> None:
    answer = await ask(v07.server, "POST", f"{v07.path}/session/new", body)

    session_id = answer.json["sessionId"]
    assert UUID(session_id).version == 7
    assert answer.body == b'{"sessionId":"%b","expires":%d}' % (
        session_id.encode(),
        v07.clock.now_ms() + _DAY_MS,
    )


async def test_a_session_without_details_is_204(v07: BridgeClient, session_id: str) -> None:
    answer = await v07.session(session_id)

    assert (answer.status, answer.body) == (204, b"")


async def test_an_update_is_answered_with_the_expiry_of_the_session(
    v07: BridgeClient, session_id: str
) -> None:
    v07.clock.advance(60)

    answer = await v07.update(session_id, _PAYLOAD, push=None)

    assert answer.json == {"expires": v07.clock.now_ms() + _DAY_MS}


async def test_a_session_is_read_in_its_envelope(v07: BridgeClient, session_id: str) -> None:
    await v07.update(session_id, _PAYLOAD, push=None)

    for _ in range(2):
        answer = await v07.session(session_id)

        assert answer.headers["Content-Type"] == "application/json"
        assert answer.body == enveloped(_PAYLOAD_TEXT, v07.clock.now_ms() + _DAY_MS)


async def test_the_expiry_of_a_session_follows_every_update_and_call(
    v07: BridgeClient, session_id: str
) -> None:
    await v07.update(session_id)
    told = [(await v07.session(session_id)).json["data"]["expires"]]
    for prolong in (v07.request_call, v07.update):
        v07.clock.advance(61)
        await prolong(session_id)
        told.append((await v07.session(session_id)).json["data"]["expires"])

    first = told[0]
    assert told == [first, first + 61_000, first + 122_000]


async def test_a_new_call_is_answered_with_its_id(v07: BridgeClient, session_id: str) -> None:
    answer = await v07.post_call(session_id, _PAYLOAD)

    assert list(answer.json) == ["callId"]
    assert UUID(answer.json["callId"]).version == 7


async def test_a_call_is_read_in_its_envelope(v07: BridgeClient, session_id: str) -> None:
    call_id = await v07.request_call(session_id, _PAYLOAD)
    expires_at_ms = v07.clock.now_ms() + _HOUR_MS
    v07.clock.advance(60)

    answer = await v07.call(session_id, call_id)

    assert answer.headers["Content-Type"] == "application/json"
    assert answer.body == enveloped(_PAYLOAD_TEXT, expires_at_ms)


async def test_calls_are_read_in_one_envelope_oldest_first(v07: BridgeClient, session_id: str) -> None:
    ids = [await v07.request_call(session_id, _PAYLOAD) for _ in range(3)]

    answer = await v07.calls(session_id)

    calls = b",".join(b'"%b":{"encryptionPayload":%b}' % (call_id.encode(), _PAYLOAD_TEXT) for call_id in ids)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.body == b'{"data":{%b}}' % calls


async def test_a_session_without_calls_has_an_empty_object_in_the_envelope(
    v07: BridgeClient, session_id: str
) -> None:
    answer = await v07.calls(session_id)

    assert (answer.status, answer.body) == (200, b'{"data":{}}')


async def test_a_status_is_read_in_its_envelope_once_there_is_one(v07: BridgeClient, session_id: str) -> None:
    call_id = await v07.request_call(session_id)
    before = await v07.status(call_id)

    taken = await v07.answer(call_id, _PAYLOAD)
    after = await v07.status(call_id)

    assert (before.status, before.body) == (204, b"")
    assert taken.json == {"success": True}
    assert after.headers["Content-Type"] == "application/json"
    assert after.body == enveloped(_PAYLOAD_TEXT, v07.clock.now_ms() + _HOUR_MS)


@each_row("payload", ["", '""', "}", "é😀\\u0000", "x" * 60_000, {}, {"expires": 1}, {"a": {}}])
async def test_a_payload_is_unchanged_inside_the_envelope(
    v07: BridgeClient, session_id: str, payload: str | dict[str, object]
) -> None:
    await v07.update(session_id, payload)
    call_id = await v07.request_call(session_id, payload)
    await v07.answer(call_id, payload)

    for read in (v07.session(session_id), v07.call(session_id, call_id), v07.status(call_id)):
        data = (await read).json["data"]

        assert data["encryptionPayload"] == payload
        assert data["expires"] > v07.clock.now_ms()


async def test_generation_0_7_has_the_greeting_the_information_and_subscriptions(
    v07: BridgeClient, session_id: str
) -> None:
    hello = await v07.get("/hello")
    info = await v07.get("/info")
    subscribed = await v07.subscribe(session_id, "https://example.org/hook")

    assert hello.body.decode() == f"Hello World, this is {NAME} v{VERSION}"
    assert info.json["version"] == VERSION
    assert subscribed.json == {"success": True}


async def test_the_path_alone_is_no_route(v07: BridgeClient) -> None:
    for path in ("", "/", "/session", "/session/"):
        (await v07.get(path)).problem(404)
    (await ask(v07.server, "POST", "/compat/v0.8/session/new")).problem(404)
