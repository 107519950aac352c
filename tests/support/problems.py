"""Problems (RFC 9457) as a client finds them."""

from collections.abc import Mapping
from typing import Any

import orjson

_ALWAYS = {"type", "title", "status", "detail", "instance"}


def checked_problem(status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The problem in an answer, once it is seen to be one, complete and true to the answer's head."""
    assert headers["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = orjson.loads(body)
    assert problem.keys() >= _ALWAYS
    assert problem.keys() <= _ALWAYS | {"errors"}
    assert problem["status"] == status
    assert problem["instance"] == headers["X-Request-ID"]
    texts = [problem[name] for name in sorted(_ALWAYS - {"status"})]
    assert all(isinstance(text, str) and text for text in texts)
    prefix, code = problem["type"].rsplit(":", 1)
    assert prefix == "urn:bridge-server:problem"
    assert headers["Link"] == f'</docs/errors/{code}>; rel="help"'
    return problem


def pointers(problem: Mapping[str, Any]) -> list[str]:
    """Where the faults are that the problem names."""
    assert all(fault.keys() == {"pointer", "detail"} and fault["detail"] for fault in problem["errors"])
    return [fault["pointer"] for fault in problem["errors"]]
