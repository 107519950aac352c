"""Any input on any route: never the server's fault, always a problem that says so, and nothing stored."""

from collections.abc import AsyncIterator

import orjson
import pytest
import pytest_asyncio
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.support.asking import METRICS_TOKEN, ask, ask_raw
from tests.support.bridge_client import BridgeClient
from tests.support.server import RunningServer, running_server
from tests.web import inputs
from tests.web.table import ANY_ORIGIN, NO_ORIGIN

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    """One server for all that is sent here."""
    async with running_server(tmp_path_factory.mktemp("any"), metrics_token=METRICS_TOKEN) as server:
        yield server


@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "TRACE"]),
    path=st.one_of(st.sampled_from([*ANY_ORIGIN, *NO_ORIGIN]), inputs.odd_paths),
    query=inputs.queries,
    headers=inputs.headers(),
    body=inputs.bodies,
)
@example(method="GET", path="/line%0Abreak", query="", headers=[], body=b"")
@example(method="PUT", path="/hello", query="", headers=[("Content-Encoding", b"deflate")], body=b"\x00")
@example(method="PUT", path="/hello", query="", headers=[("Expect", b"miracles")], body=b"")
async def test_any_request_is_answered_well(
    server: RunningServer, method: str, path: str, query: str, headers: list[tuple[str, bytes]], body: bytes
) -> None:
    answer = await ask_raw(server, inputs.request(method, path, query, headers, body))
    assert answer.status < 500, answer
    assert answer.headers["X-Request-ID"]
    if answer.status >= 400 and method != "HEAD":
        answer.problem(answer.status)


@given(
    payload=inputs.spelled(inputs.payloads),
    others=inputs.spelled(inputs.objects),
    space=st.sampled_from(["", " \r\n\t"]),
)
async def test_any_payload_comes_back(server: RunningServer, payload: str, others: str, space: str) -> None:
    bridge = BridgeClient(server)
    session_id = await bridge.open_session()
    body = f'{{{space}"ignored"{space}:{others},{space}"encryptionPayload":{space}{payload}{space}}}{space}'
    assume(len(body.encode()) <= 65_536)
    updated = await ask(server, "PUT", f"/session/{session_id}", body.encode())
    assert updated.status == 200, updated
    read = (await bridge.session(session_id)).body
    assert read == b'{"encryptionPayload":' + payload.encode() + b"}"
    in_envelope = (await bridge.get(f"/compat/v0.7/session/{session_id}")).body
    expires = b"%d" % updated.json["expires"]
    assert in_envelope == b'{"data":' + read[:-1] + b',"expires":' + expires + b"}}"


@given(url=st.one_of(st.text(max_size=60), st.text(max_size=60).map(lambda rest: "http://" + rest)))
@example(url="http://[::1%25eth0]/")
async def test_a_webhook_that_is_taken_never_spoils_a_call(server: RunningServer, url: str) -> None:
    assume(not any("\ud800" <= letter <= "\udfff" for letter in url))
    bridge = BridgeClient(server)
    session_id = await bridge.open_session()
    subscribed = await bridge.subscribe(session_id, url)
    called = await bridge.post_call(session_id)
    assert subscribed.status in (200, 400)
    assert called.status == 200


WITH_A_BODY = [
    ("PUT", "/session/{session_id}"), ("POST", "/session/{session_id}/call/new"),
    ("POST", "/call-status/{call_id}/new"), ("POST", "/subscribe"),
]  # fmt: skip


@given(body=inputs.bodies, route=st.sampled_from(WITH_A_BODY))
@example(body=b'{"encryptionPayload":"a","x":{"a":1,"a":1}}', route=WITH_A_BODY[0])
async def test_no_refused_body_is_stored(server: RunningServer, body: bytes, route: tuple[str, str]) -> None:
    method, path = route
    bridge = BridgeClient(server)
    session_id = await bridge.open_session()
    call_id = await bridge.request_call(session_id)
    answer = await ask(server, method, path.format(session_id=session_id, call_id=call_id), body)
    if answer.status == 200:
        assert isinstance(orjson.loads(body).get("encryptionPayload", ""), str | dict)
    else:
        answer.problem(400)
        assert (await bridge.session(session_id)).status == 204
        assert (await bridge.status(call_id)).status == 204
        assert await bridge.pending(session_id) == [call_id]
