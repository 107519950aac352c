"""Unknown routes are 404, other methods 405 with the allowed ones."""

from tests.support.asking import ask
from tests.support.raw_http import ask_raw, spell
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.web.table import ANY_ORIGIN, NO_ORIGIN, NOTIFY, WALLET

METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "M-SEARCH", "LOCK"}


@each_row(("path", "methods"), {**ANY_ORIGIN, **NO_ORIGIN}.items())
async def test_a_method_that_a_path_does_not_take_is_405_with_the_methods_that_it_takes(
    server: RunningServer, path: str, methods: set[str]
) -> None:
    also = ({"HEAD"} if "GET" in methods else set()) | ({"OPTIONS"} if path in ANY_ORIGIN else set())
    allow = ", ".join(sorted(methods | also))

    for method in sorted(METHODS - methods):
        answer = await ask(server, method, path, b"{}")

        answer.problem(405)
        assert answer.headers["Allow"] == allow


@each_row(("path", "methods"), NO_ORIGIN.items())
async def test_routes_that_are_not_for_web_pages_know_no_preflight(
    server: RunningServer, path: str, methods: set[str]
) -> None:
    answer = await ask(server, "OPTIONS", path, headers={"Origin": "https://dapp.example"})

    answer.problem(405)
    assert answer.headers["Allow"] == ("GET, HEAD" if methods == {"GET"} else "POST")


@each_row(
    "path", [path for path, methods in {**ANY_ORIGIN, **NOTIFY, **WALLET}.items() if "GET" not in methods]
)
async def test_head_is_no_method_of_a_route_that_cannot_be_read(server: RunningServer, path: str) -> None:
    answer = await ask(server, "HEAD", path)

    assert (answer.status, answer.body) == (405, b"")
    assert answer.headers["Allow"] == ("OPTIONS, POST" if path in ANY_ORIGIN else "POST")


@each_row("path", ["/hello", "/info", "/livez", "/readyz"])
async def test_head_says_what_get_would_without_the_body(server: RunningServer, path: str) -> None:
    read = await ask(server, "GET", path)

    answer = await ask(server, "HEAD", path)

    assert (answer.status, answer.body) == (200, b"")
    for name in ("Content-Type", "Content-Length"):
        assert answer.headers[name] == read.headers[name]


@each_row(
    "path",
    [
        "//",
        "/nope",
        "/Hello",
        "/hello/..",
        "/./hello",
        "/info.json",
        "/session",
        "/session/",
        "/session/a/b",
        "/session/a/call",
        "/session/a/call/b/c",
        "/call-status",
        "/call-status/a/b",
        "/notify",
        "/subscribers",
        "/a/notify/",
        "/a//notify",
        "/a/b/notify",
        "/v1/a/notify",
        "/v1/a/subscribers/",
        "/v2/a/subscribers",
        "/a/mark-all-as-read",
        "/metrics/",
        "//admin",
        "//admin/projects",
        "/livez/",
        "//rpc",
        "/rpc/",
        "//a/notify",
        "/v1//a/subscribers",
        "/inbox//nonce",
        "//push",
        "/new/",
        "/%68ello%2f",
        "/hello%00",
        "/hello;x=1",
        "/favicon.ico",
        "/" + "long/" * 500,
    ],
)
async def test_any_other_path_is_404(server: RunningServer, path: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        answer = await ask(server, method, path, b"{}" if method == "POST" else None)

        assert answer.problem(404)["type"].endswith(":not-found")


@each_row(
    "request_line",
    [
        "GET /line%0Abreak",
        "POST /session/new%0A",
        "GET http://bridge.example/nope",
    ],
)
async def test_an_unusual_target_is_a_problem_too(server: RunningServer, request_line: str) -> None:
    method, target = request_line.split()

    answer = await ask_raw(server, spell(method, target, b"", b"Connection: close"))

    assert answer.status in (400, 404, 405)
    answer.problem(answer.status)


@each_row("request_line", ["OPTIONS *", "CONNECT example.org:443", "GET http://bridge.example/*"])
async def test_a_target_without_a_path_is_nowhere(server: RunningServer, request_line: str) -> None:
    method, target = request_line.split()

    answer = await ask_raw(server, spell(method, target, b"", b"Connection: close"))

    answer.problem(404)


@each_row("target", ["/hello", "/hello?a=http://b", "", "?a=b", "//hello"])
async def test_a_target_may_name_the_server(server: RunningServer, target: str) -> None:
    answer = await ask_raw(server, spell("GET", f"http://bridge.example:8080{target}"))

    assert answer.status == 200


FORGIVEN = ["//hello", "/hello/", "///hello//", "/session//new", "//session/new/", "/session/new//"]


@each_row("prefix", ["", "/compat/v0.7", "//compat//v0.7"])
@each_row("path", FORGIVEN)
async def test_the_bridge_forgives_slashes(server: RunningServer, prefix: str, path: str) -> None:
    method = "GET" if "hello" in path else "POST"

    answer = await ask(server, method, prefix + path, headers={"Origin": "https://dapp.example"})
    refused = await ask(server, "PATCH", prefix + path)

    assert answer.status == 200
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert method in refused.headers["Allow"]
    refused.problem(405)


async def test_ids_are_found_between_more_slashes(server: RunningServer) -> None:
    session_id = await server.open_session()
    call_id = await server.request_call(session_id)

    answers = [
        await ask(server, "PUT", f"//session//{session_id}/", b'{"encryptionPayload":"x"}'),
        await ask(server, "GET", f"/session/{session_id}//calls/"),
        await ask(server, "GET", f"//session/{session_id}/call//{call_id}"),
        await ask(server, "POST", f"/call-status//{call_id}/new/", b'{"encryptionPayload":"x"}'),
        await ask(server, "GET", f"/call-status/{call_id}/"),
    ]

    assert [answer.status for answer in answers] == [200] * 5
