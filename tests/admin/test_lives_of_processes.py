"""The lifetime of a call that several processes have recorded in parts."""

from typing import Any

import pytest

from bridge_server.admin.other_processes import Reply
from bridge_server.admin.traffic_records import merged_life
from bridge_server.relay.models import CallNotFoundError

OWN, OTHER = 1, 2


def step(name: str, second: int, *, about: str | None = None) -> dict[str, Any]:
    """A step by a request about the call or, for "session", about the whole session; or by none."""
    request = {"number": second, "call": {"id": "c"} if about == "call" else None}
    return {
        "step": name,
        "at": f"2026-01-01T00:00:{second:02}.000Z",
        "outcome": None,
        "request": None if about is None else request,
    }


def life(*steps: dict[str, Any], session: str | None = "s") -> dict[str, Any]:
    return {
        "call": {"id": "c"},
        "session": session,
        "state": "answered",
        "expires_at": None,
        "steps": list(steps),
    }


def reply(fields: dict[str, Any] | None) -> Reply:
    return Reply(OTHER, "http://other", fields, None if fields is not None else "answered with status 404")


def summary(merged: dict[str, Any]) -> list[tuple[str, int | None]]:
    return [(each["step"], each["request"] and each["request"]["process"]) for each in merged["steps"]]


def test_steps_of_both_are_in_the_order_of_time_and_each_names_its_process() -> None:
    own = life(step("asked", 10, about="call"), step("answered", 20), step("expires", 50))
    other = life(
        step("asked", 10), step("fetched", 12, about="session"), step("answered", 21, about="call"),
        step("expires", 50),
    )  # fmt: skip

    merged = merged_life(OWN, own, [reply(other)])

    assert summary(merged) == [("asked", OWN), ("fetched", OTHER), ("answered", OTHER), ("expires", None)]
    assert [each["number"] for each in merged["processes"]] == [OWN, OTHER]


def test_requests_about_the_session_before_and_after_the_call_are_no_steps() -> None:
    own = life(step("asked", 10, about="call"), step("answered", 20, about="call"))
    other = life(
        step("fetched", 5, about="session"), step("fetched", 15, about="session"),
        step("told", 25, about="session"), step("status read", 30, about="call"),
    )  # fmt: skip

    assert summary(merged_life(OWN, own, [reply(other)])) == [
        ("asked", OWN), ("fetched", OTHER), ("answered", OWN), ("status read", OTHER)
    ]  # fmt: skip


def test_a_call_that_is_gone_is_known_by_the_process_that_recorded_it() -> None:
    other = life(step("asked", 10, about="call"))

    assert summary(merged_life(OWN, None, [reply(other)])) == [("asked", OTHER)]
    assert merged_life(OWN, life(session=None), [reply(other)])["session"] == "s"
    with pytest.raises(CallNotFoundError):
        merged_life(OWN, None, [reply(None)])
