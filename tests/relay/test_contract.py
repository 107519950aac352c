"""The bridge's table, row by row: method, path, what is sent, and exactly what comes back."""

from dataclasses import dataclass

from bridge_server.kernel.version import NAME, REPOSITORY, VERSION
from tests.support.asking import ask
from tests.support.bridge_client import BridgeClient
from tests.support.rows import each_row

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Row:
    """One row. CALL is a call with a status, PENDING one without; NEW is the id told, NOW a day ahead."""

    method: str
    path: str
    sent: bytes | None
    status: int
    content_type: str | None
    told: str

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.status}"


_INFO = f'{{"name":"{NAME}","repository":"{REPOSITORY}","version":"{VERSION}"}}'
_PAYLOAD = b'{"encryptionPayload":"e"}'
_UPDATE = b'{"encryptionPayload":"e","push":{"type":"t","token":"k","webhook":"https://w.example"}}'

ROWS = [
    Row("POST", "/session/new", None, 200, _JSON, '{"sessionId":"NEW"}'),
    Row("GET", "/session/FRESH", None, 204, None, ""),
    Row("GET", "/session/SESSION", None, 200, _JSON, '{"encryptionPayload":"approval"}'),
    Row("PUT", "/session/SESSION", _UPDATE, 200, _JSON, '{"expires":NOW}'),
    Row("DELETE", "/session/SESSION", None, 200, _JSON, '{"success":true}'),
    Row(
        "POST",
        "/session/SESSION/call/new",
        b'{"encryptionPayload":"e","dappName":"d"}',
        200,
        _JSON,
        '{"callId":"NEW"}',
    ),
    Row("GET", "/session/SESSION/call/CALL", None, 200, _JSON, '{"encryptionPayload":"first"}'),
    Row("GET", "/session/SESSION/calls", None, 200, _JSON, '{"PENDING":{"encryptionPayload":"second"}}'),
    Row("GET", "/session/FRESH/calls", None, 200, _JSON, "{}"),
    Row("POST", "/call-status/PENDING/new", _PAYLOAD, 200, _JSON, '{"success":true}'),
    Row("GET", "/call-status/PENDING", None, 204, None, ""),
    Row("GET", "/call-status/CALL", None, 200, _JSON, '{"encryptionPayload":"status"}'),
    Row("GET", "/hello", None, 200, _TEXT, f"Hello World, this is {NAME} v{VERSION}"),
    Row("GET", "/info", None, 200, _JSON, _INFO),
    Row(
        "POST",
        "/subscribe",
        b'{"topic":"SESSION","webhook":"https://w.example"}',
        200,
        _JSON,
        '{"success":true}',
    ),
]


@each_row("row", ROWS, ids=str)
async def test_a_row_is_answered_to_the_letter(bridge: BridgeClient, row: Row) -> None:
    session_id = await bridge.open_session()
    await bridge.update(session_id)
    call_id, pending = [await bridge.request_call(session_id, payload) for payload in ("first", "second")]
    await bridge.answer(call_id)
    names = {"FRESH": await bridge.open_session(), "SESSION": session_id, "PENDING": pending, "CALL": call_id}

    def filled(text: str) -> str:
        for name, value in names.items():
            text = text.replace(name, value)
        return text

    sent = None if row.sent is None else filled(row.sent.decode()).encode()
    answer = await ask(bridge.server, row.method, filled(row.path), sent)

    assert (answer.status, answer.headers.get("Content-Type")) == (row.status, row.content_type)
    body = answer.body.decode()
    names["NOW"] = str(bridge.clock.now_ms() + 86_400_000)
    names["NEW"] = body.split('"')[3] if "NEW" in row.told else ""
    assert body == filled(row.told)
