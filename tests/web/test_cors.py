"""Cross-origin requests: web pages of any origin may use the bridge; nobody else's routes."""

from tests.support.asking import ask
from tests.support.figures import METRICS_TOKEN
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.web.table import ANY_ORIGIN, EVERY_ENDPOINT, NO_ORIGIN, SESSION_ID, Endpoint

ORIGIN = {"Origin": "https://dapp.example"}
USUAL = "Content-Type, Prefer, X-Request-ID"
EXPOSED = "Link, Preference-Applied, RateLimit, RateLimit-Policy, Retry-After, X-Request-ID"


def preflight_headers(headers: str | None, method: str = "PUT") -> dict[str, str]:
    sent = {**ORIGIN, "Access-Control-Request-Method": method}
    return sent if headers is None else {**sent, "Access-Control-Request-Headers": headers}


@each_row(("path", "methods"), ANY_ORIGIN.items())
async def test_a_preflight_is_answered_for_every_path(
    server: RunningServer, path: str, methods: set[str]
) -> None:
    for method in ("GET", "PUT", "PATCH"):
        answer = await ask(server, "OPTIONS", path, headers=preflight_headers("content-type", method))

        assert (answer.status, answer.body) == (204, b"")
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.headers["Access-Control-Allow-Methods"] == ", ".join(sorted(methods))
        assert answer.headers["Access-Control-Allow-Headers"] == "content-type"
        assert answer.headers["Access-Control-Max-Age"] == "86400"
        assert "Access-Control-Allow-Credentials" not in answer.headers


@each_row(
    "headers",
    ["prefer", "content-type,x-request-id", "Content-Type, Prefer", "a" * 1024, "x-!#$%&'*+.^_`|~9"],
)
async def test_headers_that_a_page_wants_to_send_are_allowed(server: RunningServer, headers: str) -> None:
    answer = await ask(server, "OPTIONS", "/info", headers=preflight_headers(headers))

    assert answer.headers["Access-Control-Allow-Headers"] == headers


@each_row(
    "headers", [None, "", "<script>", 'x-"quoted"', "x:1", "x\ty", "x;y", "é", "(x)", "x=1", "a" * 1025]
)
async def test_a_faulty_list_of_header_names_is_not_repeated(
    server: RunningServer, headers: str | None
) -> None:
    answer = await ask(server, "OPTIONS", "/info", headers=preflight_headers(headers))

    assert answer.status == 204
    assert answer.headers["Access-Control-Allow-Headers"] == USUAL


@each_row("endpoint", EVERY_ENDPOINT, ids=str)
async def test_answers_of_the_bridge_may_be_read_by_any_origin(
    server: RunningServer, endpoint: Endpoint
) -> None:
    headers = {**ORIGIN, "Authorization": f"Bearer {METRICS_TOKEN}"}

    answer = await ask(server, endpoint.method, endpoint.path, headers=headers)

    is_open = endpoint.path in ANY_ORIGIN
    assert answer.headers.get("Access-Control-Allow-Origin") == ("*" if is_open else None)
    assert answer.headers.get("Access-Control-Expose-Headers") == (EXPOSED if is_open else None)
    assert "Access-Control-Allow-Credentials" not in answer.headers


@each_row("origin", ["null", "https://other.example", "nonsense", "*", "é"])
async def test_the_origin_is_never_repeated(server: RunningServer, origin: str) -> None:
    answer = await ask(server, "GET", "/hello", headers={"Origin": origin})

    assert answer.headers["Access-Control-Allow-Origin"] == "*"


async def test_every_refusal_may_be_read_by_any_origin(server: RunningServer) -> None:
    session = f"/session/{SESSION_ID}"
    requests = [
        (400, await ask(server, "PUT", session, b"not JSON", ORIGIN)),
        (400, await ask(server, "GET", f"{session}?wait=x", headers=ORIGIN)),
        (404, await ask(server, "GET", session, headers=ORIGIN)),
        (404, await ask(server, "GET", "/nope", headers=ORIGIN)),
        (405, await ask(server, "PATCH", session, headers=ORIGIN)),
        (413, await ask(server, "PUT", session, bytes(262_145), ORIGIN)),
        (415, await ask(server, "PUT", session, b"{}", ORIGIN, content_type="text/plain")),
    ]

    for status, answer in requests:
        answer.problem(status)
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.headers["Access-Control-Expose-Headers"] == EXPOSED


async def test_a_request_without_an_origin_needs_no_leave(server: RunningServer) -> None:
    answer = await ask(server, "GET", "/hello")

    assert not [name for name in answer.headers if name.lower().startswith("access-control-")]


@each_row("path", NO_ORIGIN)
async def test_refusals_of_routes_that_are_not_for_web_pages_may_not_be_read(
    server: RunningServer, path: str
) -> None:
    for method in ("OPTIONS", "POST", "GET"):
        answer = await ask(server, method, path, headers=preflight_headers("authorization"))

        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
