"""Unknown routes are 404, other methods 405 with what is allowed."""

import pytest

from tests.support.asking import ask
from tests.support.raw_http import ask_raw, spell
from tests.support.server import RunningServer
from tests.web.table import ANY_ORIGIN, NO_ORIGIN, NOTIFY, WALLET

METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "M-SEARCH", "LOCK"}


@pytest.mark.parametrize(("path", "methods"), {**ANY_ORIGIN, **NO_ORIGIN}.items())
async def test_a_method_that_a_path_does_not_take_is_405_with_those_it_does(
    server: RunningServer, path: str, methods: set[str]
) -> None:
    also = ({"HEAD"} if "GET" in methods else set()) | ({"OPTIONS"} if path in ANY_ORIGIN else set())
    allow = ", ".join(sorted(methods | also))

    for method in sorted(METHODS - methods):
        answer = await ask(server, method, path, b"{}")

        answer.problem(405)
        assert answer.headers["Allow"] == allow


@pytest.mark.parametrize(("path", "methods"), NO_ORIGIN.items())
async def test_routes_that_are_not_for_web_pages_know_no_preflight(
    server: RunningServer, path: str, methods: set[str]
) -> None:
    answer = await ask(server, "OPTIONS", path, headers={"Origin": "https://dapp.example"})

    answer.problem(405)
    assert answer.headers["Allow"] == ("GET, HEAD" if methods == {"GET"} else "POST")


@pytest.mark.parametrize(
    "path", [path for path, methods in {**ANY_ORIGIN, **NOTIFY, **WALLET}.items() if "GET" not in methods]
)
async def test_head_is_no_method_of_a_route_that_cannot_be_read(server: RunningServer, path: str) -> None:
    answer = await ask(server, "HEAD", path)

    assert (answer.status, answer.body) == (405, b"")
    assert answer.headers["Allow"] == ("OPTIONS, POST" if path in ANY_ORIGIN else "POST")


@pytest.mark.parametrize("path", ["/hello", "/info", "/livez", "/readyz"])
async def test_head_says_what_get_would_without_the_body(server: RunningServer, path: str) -> None:
    read = await ask(server, "GET", path)

    answer = await ask(server, "HEAD", path)

    assert (answer.status, answer.body) == (200, b"")
    for name in ("Content-Type", "Content-Length"):
        assert answer.headers[name] == read.headers[name]


@pytest.mark.parametrize(
    "path",
    [
        "//",
        "/nope",
        "/Hello",
        "/hello/",
        "//hello",
        "/hello/..",
        "/./hello",
        "/info.json",
        "/session",
        "/session/",
        "/session/new/",
        "/session/new/calls/",
        "/session/a/b",
        "/session/a/call",
        "/session/a/call/b/c",
        "/session/a/calls/",
        "/call-status",
        "/call-status/a/new/",
        "/call-status/a/b",
        "/subscribe/",
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "request_line", ["OPTIONS *", "CONNECT example.org:443", "GET http://bridge.example"]
)
async def test_a_target_without_a_path_is_nowhere(server: RunningServer, request_line: str) -> None:
    method, target = request_line.split()

    answer = await ask_raw(server, spell(method, target, b"", b"Connection: close"))

    assert answer.status in (400, 404)


async def test_a_target_may_name_the_server(server: RunningServer) -> None:
    answer = await ask_raw(server, spell("GET", "http://bridge.example/hello"))

    assert answer.status == 200
