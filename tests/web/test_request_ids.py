"""The id of a request: taken over when it is sane, made otherwise."""

from multidict import CIMultiDict

from tests.support.asking import Answer, ask
from tests.support.raw_http import ask_raw, spell
from tests.support.rows import each_row
from tests.support.server import RunningServer


async def named(server: RunningServer, path: str, *ids: str) -> Answer:
    headers = CIMultiDict([("X-Request-ID", request_id) for request_id in ids])
    return await ask(server, "GET", path, headers=headers)


@each_row(
    "request_id",
    ["x", "X" * 128, "0192f0c1-2d3e-7f00-8000-000000000000", "a.b_c:d/e+f=g-h", "Root=1-67891233-abcdef"],
)
async def test_a_sane_id_is_taken_over(server: RunningServer, request_id: str) -> None:
    found = await named(server, "/hello", request_id)
    missing = await named(server, "/nope", request_id)
    secret = await named(server, "/metrics", request_id)

    assert [answer.headers["X-Request-ID"] for answer in (found, missing, secret)] == [request_id] * 3
    assert missing.problem(404)["instance"] == request_id
    assert secret.problem(401)["instance"] == request_id


@each_row(
    "request_id",
    ["", "X" * 129, "a b", "<script>", 'a"b', "a,b", "a;b", "é", "😀", "٣", "a\tb", "{}", "a\\b", "%0a"],
)
async def test_an_odd_id_is_replaced(server: RunningServer, request_id: str) -> None:
    answer = await named(server, "/nope", request_id)

    assert answer.headers["X-Request-ID"] not in ("", request_id)
    answer.problem(404)


async def test_bytes_that_are_no_text_are_replaced(server: RunningServer) -> None:
    answer = await ask_raw(server, spell("GET", "/nope", b"", b"X-Request-ID: \xff\xfe"))

    assert answer.headers["X-Request-ID"].isascii()
    answer.problem(404)


async def test_every_made_id_is_another(server: RunningServer) -> None:
    answers = [await named(server, "/hello") for _ in range(100)]

    assert len({answer.headers["X-Request-ID"] for answer in answers}) == 100


async def test_two_servers_make_different_ids(server: RunningServer, other_server: RunningServer) -> None:
    ids = {(await named(each, "/hello")).headers["X-Request-ID"] for each in (server, other_server)}

    assert len(ids) == 2


async def test_every_kind_of_answer_has_an_id(server: RunningServer) -> None:
    session_id = await server.open_session()
    answers = [
        await ask(server, "GET", f"/session/{session_id}"),
        await ask(server, "OPTIONS", "/info", headers={"Origin": "https://dapp.example"}),
        await ask(server, "PUT", f"/session/{session_id}", bytes(262_145)),
        await ask(server, "PATCH", "/info"),
        await ask(server, "GET", "/metrics"),
        await ask(server, "HEAD", "/hello"),
        await ask(server, "POST", "/a/notify"),
        await ask(server, "DELETE", f"/session/{session_id}"),
    ]

    assert [answer.status for answer in answers] == [204, 204, 413, 405, 401, 200, 401, 200]
    assert all(answer.headers["X-Request-ID"] for answer in answers)


async def test_of_two_ids_at_most_one_is_taken_over(server: RunningServer) -> None:
    answer = await named(server, "/nope", "one", "two")

    assert len(answer.headers.getall("X-Request-ID")) == 1
    answer.problem(404)
