"""Any input on any route: never the server's fault, always a problem that says so, and nothing stored."""

from collections.abc import AsyncIterator

import orjson
import pytest
import pytest_asyncio
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.support.asking import METRICS_TOKEN, Answer, ask, ask_raw
from tests.support.bridge_client import BridgeClient
from tests.support.engines import database_of
from tests.support.server import RunningServer, running_server
from tests.web import inputs
from tests.web.inputs import Odd
from tests.web.table import ANY_ORIGIN, CALL_ID, NO_ORIGIN, SESSION_ID

pytestmark = pytest.mark.asyncio(loop_scope="module")

_TABLES = ["calls", "call_statuses", "topic_webhooks", "push_registrations", "outbox"]
METHODS = ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "TRACE"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    """One server for all that is sent here."""
    async with running_server(tmp_path_factory.mktemp("any"), metrics_token=METRICS_TOKEN) as server:
        yield server


def rows(server: RunningServer) -> tuple[int, ...]:
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in _TABLES)
    with database_of(server.settings) as database:
        (found,) = database.execute(f"SELECT {counts}")
    return tuple(found)


class Waiting:
    """A session and a call of it that nobody has answered."""

    def __init__(self, server: RunningServer) -> None:
        self._bridge = BridgeClient(server)
        self._ids: tuple[str, str] | None = None

    async def ids(self) -> tuple[str, str]:
        """The ids of the session and of the call."""
        if self._ids is None:
            session_id = await self._bridge.open_session()
            self._ids = session_id, await self._bridge.request_call(session_id)
        return self._ids

    def answered(self) -> None:
        """The next ones are others."""
        self._ids = None


@pytest.fixture(scope="module")
def waiting(server: RunningServer) -> Waiting:
    return Waiting(server)


def assert_well_answered(answer: Answer, method: str) -> None:
    assert answer.status < 500, answer
    assert answer.headers["X-Request-ID"]
    if answer.status >= 400 and method != "HEAD":
        answer.problem(answer.status)


@given(
    method=st.sampled_from(METHODS),
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
    odd = Odd(method, path, query, headers, body)

    answer = await ask_raw(server, odd.spelled())

    assert_well_answered(answer, method)


@given(body=inputs.bodies, route=st.sampled_from(["session", "call", "status", "subscribe"]))
@example(body=b'{"encryptionPayload":"a","x":{"a":1,"a":1}}', route="session")
async def test_a_body_that_is_refused_stores_nothing(
    server: RunningServer, waiting: Waiting, body: bytes, route: str
) -> None:
    bridge = BridgeClient(server)
    session_id, call_id = await waiting.ids()
    method, path = {
        "session": ("PUT", f"/session/{session_id}"),
        "call": ("POST", f"/session/{session_id}/call/new"),
        "status": ("POST", f"/call-status/{call_id}/new"),
        "subscribe": ("POST", "/subscribe"),
    }[route]
    before = rows(server)

    answer = await ask(server, method, path, body)

    assert_well_answered(answer, method)
    if answer.status == 200:
        waiting.answered()
        document = orjson.loads(body)
        assert isinstance(document.get("encryptionPayload", ""), str | dict)
    else:
        assert answer.status == 400
        assert rows(server) == before
        assert (await bridge.session(session_id)).status == 204
        assert (await bridge.status(call_id)).status == 204


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


@given(name=st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
async def test_a_dapp_name_is_counted_in_code_points(server: RunningServer, name: str) -> None:
    bridge = BridgeClient(server)

    answer = await bridge.post_call(SESSION_ID, dapp_name=name)

    answer.problem(404 if 1 <= len(name) <= 255 else 400)


async def test_the_ids_of_the_table_name_nothing(server: RunningServer) -> None:
    bridge = BridgeClient(server)

    (await bridge.session(SESSION_ID)).problem(404)
    (await bridge.status(CALL_ID)).problem(404)
