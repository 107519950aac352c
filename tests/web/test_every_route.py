"""The rules that hold on every route: methods, origins, ids of requests, problems.

White-box: no request makes a handler fail; what is logged then is read where it is logged.
"""

import pytest
from structlog.testing import CapturingLogger

from bridge_server.kernel import errors
from bridge_server.kernel.errors import BridgeError
from bridge_server.relay.service import Relay
from bridge_server.web import request_log
from bridge_server.web.problems import STATUS_OF_KIND, status_of
from tests.support.asking import METRICS_TOKEN, ask, ask_raw, spell
from tests.support.described import every_failure
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.web.table import ANY_ORIGIN, NO_ORIGIN, SESSION_ID


@each_row(("path", "methods"), {**ANY_ORIGIN, **NO_ORIGIN}.items())
async def test_other_methods_are_405(server: RunningServer, path: str, methods: set[str]) -> None:
    also = ({"HEAD"} if "GET" in methods else set()) | ({"OPTIONS"} if path in ANY_ORIGIN else set())
    taken = methods | also
    for method in sorted({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE"} - taken):
        answer = await ask(server, method, path, b"{}", {"Origin": "https://dapp.example"})
        assert (answer.status, answer.headers["Allow"]) == (405, ", ".join(sorted(taken)))
        if method == "HEAD":
            assert answer.body == b""
        else:
            answer.problem(405)


async def test_head_says_what_get_would_without_the_body(server: RunningServer) -> None:
    for path in ("/hello", "/info", "/livez", "/readyz"):
        read, answer = [await ask(server, method, path) for method in ("GET", "HEAD")]
        assert (answer.status, answer.body) == (200, b"")
        for name in ("Content-Type", "Content-Length"):
            assert answer.headers[name] == read.headers[name]


async def test_any_other_path_is_404(server: RunningServer) -> None:
    for path in (
        "//", "/nope", "/Hello", "/hello/..", "/./hello", "/info.json", "/session/", "/session/a/b",
        "/session/a/call/b/c", "/call-status/a/b", "/a/notify/", "/a//notify", "/a/b/notify", "/v1/a/notify",
        "/v2/a/subscribers", "/metrics/", "//admin/projects", "/livez/", "//rpc", "/inbox//nonce", "//push",
        "/new/", "/%68ello%2f", "/hello%00", "/hello;x=1", "/" + "long/" * 500,
    ):  # fmt: skip
        for method in ("GET", "POST", "OPTIONS"):
            answer = await ask(server, method, path, b"{}" if method == "POST" else None)
            assert answer.problem(404)["type"].endswith(":not-found"), path


async def test_a_target_may_name_the_server(server: RunningServer) -> None:
    for target in ("/hello", "/hello?a=http://b", "", "?a=b", "//hello"):
        answer = await ask_raw(server, spell("GET", f"http://bridge.example:8080{target}"))
        assert answer.status == 200, target


async def test_the_bridge_forgives_slashes(server: RunningServer) -> None:
    for path in ("//hello", "/hello/", "/session//new", "//session/new/"):
        method = "GET" if "hello" in path else "POST"
        for prefix in ("", "//compat//v0.7"):
            answer = await ask(server, method, prefix + path, headers=ORIGIN)
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, "*")
            refused = await ask(server, "PATCH", prefix + path)
            assert method in refused.headers["Allow"]
            refused.problem(405)
    session_id = await server.open_session()
    call_id = await server.request_call(session_id)
    for method, path in (
        ("PUT", f"//session//{session_id}/"), ("GET", f"/session/{session_id}//calls/"),
        ("GET", f"//session/{session_id}/call//{call_id}"), ("POST", f"/call-status//{call_id}/new/"),
        ("GET", f"/call-status/{call_id}/"),
    ):  # fmt: skip
        body = None if method == "GET" else b'{"encryptionPayload":"x"}'
        assert (await ask(server, method, path, body)).status == 200, path


ORIGIN = {"Origin": "https://dapp.example"}
SESSION, JSON = f"/session/{SESSION_ID}", "application/json"
EXPOSED = "Link, Preference-Applied, RateLimit, RateLimit-Policy, Retry-After, X-Request-ID"


def preflight_headers(headers: str | None, method: str = "PUT") -> dict[str, str]:
    sent = {**ORIGIN, "Access-Control-Request-Method": method}
    return sent if headers is None else {**sent, "Access-Control-Request-Headers": headers}


@each_row(("path", "methods"), ANY_ORIGIN.items())
async def test_every_path_has_a_preflight(server: RunningServer, path: str, methods: set[str]) -> None:
    for method in ("GET", "PUT", "PATCH"):
        answer = await ask(server, "OPTIONS", path, headers=preflight_headers("content-type", method))
        assert (answer.status, answer.body) == (204, b"")
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.headers["Access-Control-Allow-Methods"] == ", ".join(sorted(methods))
        assert answer.headers["Access-Control-Allow-Headers"] == "content-type"
        assert answer.headers["Access-Control-Max-Age"] == "86400"
        assert "Access-Control-Allow-Credentials" not in answer.headers


async def test_headers_that_a_page_wants_to_send_are_allowed_unless_faulty(server: RunningServer) -> None:
    async def allowed(headers: str | None) -> str:
        answer = await ask(server, "OPTIONS", "/info", headers=preflight_headers(headers))
        assert answer.status == 204
        return answer.headers["Access-Control-Allow-Headers"]

    for named in ("prefer", "content-type,x-request-id", "Content-Type, Prefer", "a" * 1024,
                  "x-!#$%&'*+.^_`|~9"):  # fmt: skip
        assert await allowed(named) == named
    for faulty in (None, "", "<script>", 'x-"quoted"', "x:1", "x\ty", "x;y", "é", "(x)", "x=1", "a" * 1025):
        assert await allowed(faulty) == "Content-Type, Prefer, X-Request-ID", faulty


@each_row(("path", "methods"), {**ANY_ORIGIN, **NO_ORIGIN}.items())
async def test_any_origin_may_read_the_bridge(server: RunningServer, path: str, methods: set[str]) -> None:
    allowed = ("*", EXPOSED) if path in ANY_ORIGIN else (None, None)
    for method in methods:
        answer = await ask(
            server, method, path, headers={**ORIGIN, "Authorization": f"Bearer {METRICS_TOKEN}"}
        )
        names = ("Access-Control-Allow-Origin", "Access-Control-Expose-Headers")
        assert tuple(answer.headers.get(name) for name in names) == allowed
        assert "Access-Control-Allow-Credentials" not in answer.headers
    for method in ("OPTIONS", "POST", "GET") if path in NO_ORIGIN else ():
        answer = await ask(server, method, path, headers=preflight_headers("authorization"))
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]


async def test_a_problem_has_a_stable_type_and_may_be_read_by_any_origin(server: RunningServer) -> None:
    requests: list[tuple[str, str, bytes | None, str, int, str]] = [
        ("PUT", SESSION, b"not JSON", JSON, 400, "invalid-input"),
        ("GET", f"{SESSION}?wait=x", None, JSON, 400, "invalid-input"),
        ("POST", "/a/notify", b"{", JSON, 401, "not-authenticated"),
        ("GET", SESSION, None, JSON, 404, "session-not-found"),
        ("GET", "/call-status/a", None, JSON, 404, "call-not-found"),
        ("GET", "/nope", None, JSON, 404, "not-found"),
        ("PATCH", SESSION, None, JSON, 405, "method-not-allowed"),
        ("PUT", SESSION, bytes(262_145), JSON, 413, "too-large"),
        ("PUT", SESSION, b"{}", "text/plain", 415, "unsupported-media-type"),
    ]
    for method, path, body, content_type, status, code in requests:
        answer = await ask(server, method, path, body, ORIGIN, content_type=content_type)
        assert answer.problem(status)["type"] == f"urn:bridge-server:problem:{code}"
        if "notify" not in path:
            assert answer.headers["Access-Control-Allow-Origin"] == "*", path
            assert answer.headers["Access-Control-Expose-Headers"] == EXPOSED, path


async def test_a_sane_id_is_taken_over_and_another_made_in_place_of_an_odd_one(server: RunningServer) -> None:
    for request_id in ("x", "X" * 128, "a.b_c:d/e+f=g-h"):
        for path, status in (("/hello", 200), ("/nope", 404), ("/metrics", 401)):
            answer = await ask(server, "GET", path, headers={"X-Request-ID": request_id})
            assert (answer.status, answer.headers["X-Request-ID"]) == (status, request_id)
    odd = ["", "X" * 129, "a b", "<script>", 'a"b', "a,b", "a;b", "é", "😀", "٣", "a\tb", "{}", "a\\b", "%0a"]
    for request_id in odd:
        answer = await ask(server, "GET", "/nope", headers={"X-Request-ID": request_id})
        assert answer.headers["X-Request-ID"] not in ("", request_id)
        answer.problem(404)
    answers = [await ask(server, "GET", "/hello") for _ in range(100)]
    assert len({answer.headers["X-Request-ID"] for answer in answers}) == 100


def test_every_failure_has_a_status_and_a_name_and_every_kind_is_in_the_table_once() -> None:
    for failure in every_failure():
        assert 400 <= status_of(failure.__new__(failure)) < 600, failure
        assert failure.code != BridgeError.code, failure
        assert failure.title != BridgeError.title, failure
    kinds = {kind for kind in BridgeError.__subclasses__() if kind.__module__ == errors.__name__}
    assert set(STATUS_OF_KIND) == kinds
    assert len(set(STATUS_OF_KIND.values())) == len({kind.code for kind in kinds}) == len(kinds)


async def test_a_fault_of_the_server_is_a_500(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def break_down(_: Relay) -> None:
        raise RuntimeError("the inside")

    log = CapturingLogger()
    monkeypatch.setattr(request_log, "log", log)
    monkeypatch.setattr(Relay, "open_session", break_down)

    answer = await ask(server, "POST", "/session/new", headers={"X-Request-ID": "mine", **ORIGIN})

    problem = answer.problem(500)
    assert problem["type"].endswith(":server-error")
    assert "inside" not in answer.body.decode()
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    (failure,) = [call for call in log.calls if "request_failed" in call.args]
    assert failure.kwargs["request_id"] == "mine"
    assert isinstance(failure.kwargs["exc_info"], RuntimeError)
    assert (await ask(server, "GET", "/hello")).status == 200
