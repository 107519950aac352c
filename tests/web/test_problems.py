"""Failures as problems: one table from kinds to statuses, and no details of the server's code."""

import pytest
from structlog.testing import CapturingLogger

from bridge_server.kernel import errors
from bridge_server.kernel.errors import BridgeError
from bridge_server.relay.service import Relay
from bridge_server.web import request_log
from bridge_server.web.problems import STATUS_OF_KIND, status_of
from tests.support.asking import ask
from tests.support.failures import every_failure
from tests.support.rows import each_row
from tests.support.server import RunningServer

_ORIGIN = {"Origin": "https://dapp.example"}


@each_row("failure", every_failure(), ids=lambda failure: failure.__name__)
def test_every_failure_has_a_status_and_a_name(failure: type[BridgeError]) -> None:
    status = status_of(failure.__new__(failure))

    assert 400 <= status < 600
    assert failure.code != BridgeError.code
    assert failure.title != BridgeError.title


def test_every_kind_of_failure_is_in_the_table_once() -> None:
    kinds = {kind for kind in BridgeError.__subclasses__() if kind.__module__ == errors.__name__}

    assert set(STATUS_OF_KIND) == kinds
    assert len(set(STATUS_OF_KIND.values())) == len(kinds)
    assert len({kind.code for kind in kinds}) == len(kinds)


async def test_a_fault_of_the_server_is_answered_without_details_and_logged_once(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def break_down(_: Relay) -> None:
        raise RuntimeError("the inside")

    log = CapturingLogger()
    monkeypatch.setattr(request_log, "log", log)
    monkeypatch.setattr(Relay, "open_session", break_down)

    answer = await ask(server, "POST", "/session/new", headers={"X-Request-ID": "mine", **_ORIGIN})

    problem = answer.problem(500)
    assert problem["type"].endswith(":server-error")
    assert "inside" not in answer.body.decode()
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    (failure,) = [call for call in log.calls if "request_failed" in call.args]
    assert failure.kwargs["request_id"] == "mine"
    assert isinstance(failure.kwargs["exc_info"], RuntimeError)
    assert (await ask(server, "GET", "/hello")).status == 200


@each_row(
    ("method", "path", "body", "status", "code"),
    [
        ("PUT", "/session/a", b"{", 400, "invalid-input"),
        ("GET", "/metrics", None, 401, "not-authenticated"),
        ("POST", "/a/notify", b"{", 401, "not-authenticated"),
        ("GET", "/a/subscribers", None, 401, "not-authenticated"),
        ("GET", "/session/a", None, 404, "session-not-found"),
        ("GET", "/call-status/a", None, 404, "call-not-found"),
        ("GET", "/nope", None, 404, "not-found"),
        ("PATCH", "/hello", None, 405, "method-not-allowed"),
        ("PUT", "/session/a", bytes(262_145), 413, "too-large"),
    ],
)
async def test_a_problem_has_a_stable_type(
    server: RunningServer, method: str, path: str, body: bytes | None, status: int, code: str
) -> None:
    problem = (await ask(server, method, path, body)).problem(status)

    assert problem["type"] == f"urn:bridge-server:problem:{code}"


async def test_successes_are_not_logged_one_by_one(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(request_log, "log", log)

    for path in ("/hello", "/nope", "/session/a"):
        await ask(server, "GET", path)

    assert log.calls == []
