"""JSON of sessions."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from bridge_server.admin.handles import Handles, shortened
from bridge_server.admin.neighbours import Reply, listed_processes
from bridge_server.admin.sessions.service import MOST_REQUESTS, Happening, SessionStory, SessionView
from bridge_server.admin.traffic.wire import named, request_fields
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.web.traffic import TrafficLog

SUCCESS = {"success": True}

_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_GENERATIONS = {"v0.7-": "0.7", "": "plain"}


def read_after(text: str) -> int | None:
    """The number of the session before the page; None for the first page. Raises InvalidInputError."""
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError("The query parameter after takes what next was in the page before.")
    return int(text)


def page_fields(page: Sequence[SessionView], next_before: int | None, handles: Handles) -> dict[str, Any]:
    """A page of sessions, and the `after` of the next page if one may follow."""
    return {
        "sessions": [session_fields(each, handles) for each in page],
        "next": None if next_before is None else str(next_before),
    }


def session_fields(view: SessionView, handles: Handles) -> dict[str, Any]:
    """A session. Each side was seen when it sent a request, as far as this process knows."""
    session = view.session
    return {
        "handle": handles.of(session.session_id),
        "id": shortened(session.session_id),
        "generation": None if view.dialect is None else _GENERATIONS.get(view.dialect),
        "dapp": view.dapp_name,
        "approved": session.is_approved,
        "push": session.push_type,
        "calls_waiting": session.calls_waiting,
        "created_at": rfc3339_or_none(session.created_at_ms),
        "expires_at": rfc3339(session.expires_at_ms),
        "dapp_seen_at": rfc3339_or_none(view.dapp_seen_at_ms),
        "wallet_seen_at": rfc3339_or_none(view.wallet_seen_at_ms),
    }


def story_fields(story: SessionStory, traffic: TrafficLog | None, handles: Handles) -> dict[str, Any]:
    """A session, its timeline, and the requests about it that are still kept, newest first."""
    requests = [] if traffic is None else [request_fields(each, traffic, handles) for each in story.requests]
    return {
        **session_fields(story.view, handles),
        "timeline": [happening_fields(each, handles) for each in story.timeline],
        "requests": requests,
    }


def merged_page(own_number: int, own: dict[str, Any], replies: Sequence[Reply]) -> dict[str, Any]:
    """A page of sessions with what all processes have seen of them."""
    seen: dict[str, list[dict[str, Any]]] = {}
    for reply in replies:
        for session in () if reply.fields is None else reply.fields["sessions"]:
            seen.setdefault(session["handle"], []).append(session)
    sessions = [_as_seen_by_all(each, seen.get(each["handle"], ())) for each in own["sessions"]]
    return {**own, "sessions": sessions, "processes": listed_processes(own_number, replies)}


def merged_story(own_number: int, own: dict[str, Any], replies: Sequence[Reply]) -> dict[str, Any]:
    """A session with what all processes have seen of it, and the requests that any of them keeps."""
    stories = {each.number: each.fields for each in replies if each.fields is not None}
    requests = [
        {**request, "process": number}
        for number, story in {**stories, own_number: own}.items()
        for request in story["requests"]
    ]
    return {
        **_as_seen_by_all(own, list(stories.values())),
        "requests": sorted(requests, key=lambda each: (each["at"], each["number"]), reverse=True)[
            :MOST_REQUESTS
        ],
        "processes": listed_processes(own_number, replies),
    }


def _as_seen_by_all(own: dict[str, Any], others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The session, with what requests to other processes have shown of it."""
    found = [own, *others]
    firsts = {name: _first(each[name] for each in found) for name in ("generation", "dapp")}
    moments = ("dapp_seen_at", "wallet_seen_at")
    return {**own, **firsts, **{name: max(each[name] or "" for each in found) or None for name in moments}}


def _first(values: Iterable[str | None]) -> str | None:
    return next((each for each in values if each is not None), None)


def happening_fields(happening: Happening, handles: Handles) -> dict[str, Any]:
    """Something that happened in a session, or will."""
    return {
        "at": rfc3339(happening.at_ms),
        "event": happening.name,
        "call": named(happening.call_id, handles),
    }
