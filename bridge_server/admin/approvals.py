"""Requests that wait for a person: listed, explained, approved, rejected."""

import re
from collections.abc import Sequence
from typing import Any

import orjson
from aiohttp import web

from bridge_server.admin.rows import ANY_ID, AdminRows, fields_answer, wanted_page
from bridge_server.ethereum.address import checksummed
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.kernel.values import dataclass
from bridge_server.wallet.approvals import Approvals, ApprovalStore
from bridge_server.wallet.explaining import explain
from bridge_server.wallet.models import (
    ApprovalNotFoundError,
    ApprovalRequest,
    ApprovalSettledError,
    ApprovalState,
)
from bridge_server.web.routes import Route

LEAST_OF_AN_ID = 4
"""The fewest characters that name a request: a script's empty variable must not select one."""

_BEYOND_ALL = 2**63 - 1

_PLACE = re.compile(r"(waiting|settled)-([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ApprovalPlace:
    """A place in the list: among waiting or among settled requests, by number."""

    is_settled: bool
    number: int


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """Requests without their subjects, and the place after which more follow."""

    approvals: Sequence[ApprovalRequest]
    rest: ApprovalPlace | None


class ApprovalDesk:
    """Lists and decides requests. Their clients wait in this process, and are answered at once."""

    def __init__(self, store: ApprovalStore, approvals: Approvals, clock: Clock) -> None:
        self._store = store
        self._approvals = approvals
        self._clock = clock

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a decision."""
        return self._approvals.waiting

    def now_ms(self) -> int:
        """The time by which requests expire."""
        return self._clock.now_ms()

    async def page(self, after: ApprovalPlace | None, limit: int) -> ApprovalPage:
        """A page of requests for approval: waiting ones, then settled ones, each newest first."""
        now_ms, place = self._clock.now_ms(), after or ApprovalPlace(False, _BEYOND_ALL)
        found: list[tuple[ApprovalPlace, ApprovalRequest]] = []
        settled_before = place.number
        if not place.is_settled:
            waiting = await self._store.waiting_page(now_ms, place.number, limit + 1)
            found += [(ApprovalPlace(False, number), approval) for number, approval in waiting]
            settled_before = _BEYOND_ALL
        if len(found) <= limit:
            settled = await self._store.settled_page(now_ms, settled_before, limit + 1 - len(found))
            found += [(ApprovalPlace(True, number), approval) for number, approval in settled]
        has_more = len(found) > limit
        return ApprovalPage(
            [approval for _, approval in found[:limit]], found[limit - 1][0] if has_more else None
        )

    async def named(self, beginning: str) -> ApprovalRequest:
        """The request with this id, or the only one whose id begins so.

        Raises ApprovalNotFoundError; InvalidInputError when the beginning is short or several have it.
        """
        if len(beginning) < LEAST_OF_AN_ID:
            raise InvalidInputError(f"Write at least {LEAST_OF_AN_ID} characters of the approval's id.")
        found = await self._store.named(beginning.lower())
        if not found:
            raise ApprovalNotFoundError
        if len(found) > 1:
            raise InvalidInputError("Several approvals begin so: write more of the id.")
        return found[0]

    async def decide(self, beginning: str, decision: ApprovalState) -> ApprovalRequest:
        """Approve or reject. Raises ApprovalSettledError, and what `named` raises."""
        approval = await self.named(beginning)
        is_decided = await self._approvals.decide(approval.approval_id, decision)
        now = await self._store.get(approval.approval_id) or approval
        if not is_decided:
            raise ApprovalSettledError(now.state_at(self._clock.now_ms()))
        return now


def read_place(after: str) -> ApprovalPlace | None:
    """Read the query parameter `after`. Raises InvalidInputError."""
    if not after:
        return None
    found = _PLACE.fullmatch(after)
    if found is None:
        raise InvalidInputError("The query parameter after takes the next of the page before.")
    return ApprovalPlace(found[1] == "settled", int(found[2]))


def page_fields(page: ApprovalPage, now_ms: int) -> dict[str, Any]:
    """A page of requests without the data to sign; `next` is null at the end."""
    rest = page.rest
    return {
        "approvals": [_listed_fields(approval, approval.state_at(now_ms)) for approval in page.approvals],
        "next": None if rest is None else f"{'settled' if rest.is_settled else 'waiting'}-{rest.number}",
    }


def approval_fields(approval: ApprovalRequest) -> dict[str, Any]:
    """A request with the data to sign, in the state that is stored."""
    return {**_request_fields(approval, approval.state), "subject": orjson.Fragment(approval.subject)}


def whole_fields(approval: ApprovalRequest, now_ms: int) -> dict[str, Any]:
    """A request with the data to sign, and that data in words."""
    return {
        **_listed_fields(approval, approval.state_at(now_ms)),
        "subject": orjson.Fragment(approval.subject),
        "text": [{"label": label, "text": text} for label, text in lines(approval)],
    }


def lines(approval: ApprovalRequest) -> list[tuple[str, str]]:
    """The request in words, as labels and texts, for the person who decides."""
    return [
        ("approval", approval.approval_id),
        ("state", approval.state),
        ("method", approval.method),
        ("account", checksummed(approval.address)),
        ("client", approval.caller.address),
        ("page", approval.caller.origin or "-"),
        ("request", approval.caller.request_id),
        ("asked", rfc3339(approval.asked_at_ms)),
        ("until", rfc3339(approval.expires_at_ms)),
        *explain(approval.method, approval.subject, approval.address),
    ]


def _listed_fields(approval: ApprovalRequest, state: ApprovalState) -> dict[str, Any]:
    decided_at_ms = approval.decided_at_ms
    return {
        **_request_fields(approval, state),
        "decided_at": rfc3339_or_none(decided_at_ms),
    }


def _request_fields(approval: ApprovalRequest, state: ApprovalState) -> dict[str, Any]:
    return {
        "id": approval.approval_id,
        "state": state,
        "method": approval.method,
        "account": checksummed(approval.address),
        "client": approval.caller.address,
        "origin": approval.caller.origin,
        "request_id": approval.caller.request_id,
        "asked_at": rfc3339(approval.asked_at_ms),
        "expires_at": rfc3339(approval.expires_at_ms),
    }


class ApprovalHandlers:
    """One method per endpoint."""

    def __init__(self, desk: ApprovalDesk) -> None:
        self._desk = desk

    async def approvals(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        found = await self._desk.page(read_place(after), limit)
        return fields_answer(page_fields(found, self._desk.now_ms()))

    async def approval(self, request: web.Request) -> web.Response:
        found = await self._desk.named(request.match_info["id"])
        return fields_answer(whole_fields(found, self._desk.now_ms()))

    async def approve(self, request: web.Request) -> web.Response:
        return await self._decide(request, ApprovalState.APPROVED)

    async def reject(self, request: web.Request) -> web.Response:
        return await self._decide(request, ApprovalState.REJECTED)

    async def _decide(self, request: web.Request, decision: ApprovalState) -> web.Response:
        decided = await self._desk.decide(request.match_info["id"], decision)
        return fields_answer(whole_fields(decided, self._desk.now_ms()))


_APPROVALS = "/admin/approvals"
_APPROVAL = f"{_APPROVALS}/{{id:{ANY_ID}}}"


def approval_routes(handlers: ApprovalHandlers, rows: AdminRows, *, may_sign: bool) -> tuple[Route, ...]:
    """Requests that wait and that are settled. Only with `may_sign` can they be decided here."""
    shown = (
        rows.read(_APPROVALS, "approvals", handlers.approvals),
        rows.read(_APPROVAL, "approval", handlers.approval),
    )
    if not may_sign:
        return shown
    return (
        *shown,
        rows.write("POST", f"{_APPROVAL}/approve", "approve", handlers.approve),
        rows.write("POST", f"{_APPROVAL}/reject", "reject", handlers.reject),
    )
