"""Requests that wait for a person: listed, explained, approved, rejected."""

import re
from typing import Annotated, Any

import orjson
from aiohttp import web

from bridge_server.admin.rows import ANY_ID, AdminRows, read_place, wanted_page
from bridge_server.ethereum.address import checksummed
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.wallet.approvals import Approvals, ApprovalStore
from bridge_server.wallet.explaining import explain
from bridge_server.wallet.models import (
    ApprovalNotFoundError,
    ApprovalRequest,
    ApprovalSettledError,
    ApprovalState,
)
from bridge_server.web.routes import Parameter, Route
from bridge_server.web.shapes import Address as AnyAddress
from bridge_server.web.shapes import Moment, TypedDict, page_parameters, text

LEAST_OF_AN_ID = 4
"""The fewest characters that name a request: a script's empty variable must not select one."""

_BEYOND_ALL = 2**63 - 1

_PLACE = re.compile(r"(waiting|settled)-([0-9]{1,18})", re.ASCII)


class _WaitingApproval(TypedDict):
    id: Annotated[str, text("0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8")]
    state: ApprovalState
    method: Annotated[str, text("personal_sign")]
    account: AnyAddress
    client: Annotated[str, text("127.0.0.1")]
    origin: Annotated[str, text("https://app.example.org")] | None
    request_id: Annotated[str, text("0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f")]
    asked_at: Moment
    expires_at: Moment


class ApprovalAnswer(_WaitingApproval):
    """A request that a person must approve."""

    decided_at: Moment | None


class ApprovalLineAnswer(TypedDict):
    """A line of the data to sign, in words."""

    label: Annotated[str, text("message")]
    text: str


class ApprovalDetailsAnswer(ApprovalAnswer):
    """A request with the data to sign, and a description of these data in words."""

    subject: Any
    text: list[ApprovalLineAnswer]


class ApprovalsAnswer(TypedDict):
    """A page of requests: waiting requests, then settled requests, each newest first."""

    approvals: list[ApprovalAnswer]
    next: Annotated[str, text("settled-7")] | None


class ApprovalAdmin:
    """Lists and decides requests. Their clients wait in this process, and are answered at once."""

    def __init__(self, store: ApprovalStore, approvals: Approvals, clock: Clock) -> None:
        self._store = store
        self._approvals = approvals
        self._clock = clock

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a decision."""
        return self._approvals.waiting

    async def page(self, after: str, limit: int) -> ApprovalsAnswer:
        """A page of requests: waiting, then settled ones, each newest first. Raises InvalidInputError."""
        now_ms, place = self._clock.now_ms(), read_place(after, _PLACE)
        part, before = ("waiting", _BEYOND_ALL) if place is None else (place[1], int(place[2]))
        found: list[tuple[str, ApprovalRequest]] = []
        if part == "waiting":
            waiting = await self._store.waiting_page(now_ms, before, limit + 1)
            found += [(f"waiting-{number}", approval) for number, approval in waiting]
            before = _BEYOND_ALL
        if len(found) <= limit:
            settled = await self._store.settled_page(now_ms, before, limit + 1 - len(found))
            found += [(f"settled-{number}", approval) for number, approval in settled]
        return {
            "approvals": [_listed_fields(each, each.state_at(now_ms)) for _, each in found[:limit]],
            "next": found[limit - 1][0] if len(found) > limit else None,
        }

    async def show(self, beginning: str) -> ApprovalDetailsAnswer:
        """The request whose id begins so. Raises ApprovalNotFoundError; InvalidInputError unless only one
        does.
        """
        return self._whole(await self._named(beginning))

    async def decide(self, beginning: str, decision: ApprovalState) -> ApprovalDetailsAnswer:
        """Approve or reject. Raises ApprovalSettledError, and what `show` raises."""
        approval = await self._named(beginning)
        is_decided = await self._approvals.decide(approval.approval_id, decision)
        now = await self._store.get(approval.approval_id) or approval
        if not is_decided:
            raise ApprovalSettledError(now.state_at(self._clock.now_ms()))
        return self._whole(now)

    async def _named(self, beginning: str) -> ApprovalRequest:
        if len(beginning) < LEAST_OF_AN_ID:
            raise InvalidInputError(f"Write at least {LEAST_OF_AN_ID} characters of the approval's id.")
        found = await self._store.named(beginning.lower())
        if not found:
            raise ApprovalNotFoundError
        if len(found) > 1:
            raise InvalidInputError("Several approvals begin so: write more of the id.")
        return found[0]

    def _whole(self, approval: ApprovalRequest) -> ApprovalDetailsAnswer:
        return {
            **_listed_fields(approval, approval.state_at(self._clock.now_ms())),
            "subject": orjson.Fragment(approval.subject),
            "text": [{"label": label, "text": text} for label, text in lines(approval)],
        }

    async def handle_page(self, request: web.Request) -> ApprovalsAnswer:
        """Requests that wait for a decision, then settled requests, each newest first."""
        return await self.page(*wanted_page(request))

    async def handle_show(self, request: web.Request) -> ApprovalDetailsAnswer:
        """A request with the data to sign, and a description of these data in words."""
        return await self.show(request.match_info["id"])

    async def approve(self, request: web.Request) -> ApprovalDetailsAnswer:
        """The wallet signs at once, and its client gets the answer. The route exists with `admin_wallet`."""
        return await self.decide(request.match_info["id"], ApprovalState.APPROVED)

    async def reject(self, request: web.Request) -> ApprovalDetailsAnswer:
        """Its client gets the error 4001. The route exists with `admin_wallet`."""
        return await self.decide(request.match_info["id"], ApprovalState.REJECTED)


def approval_fields(approval: ApprovalRequest) -> dict[str, Any]:
    """A request with the data to sign, in the state that is stored."""
    return {**_request_fields(approval, approval.state), "subject": orjson.Fragment(approval.subject)}


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


def _listed_fields(approval: ApprovalRequest, state: ApprovalState) -> ApprovalAnswer:
    return {**_request_fields(approval, state), "decided_at": rfc3339_or_none(approval.decided_at_ms)}


def _request_fields(approval: ApprovalRequest, state: ApprovalState) -> _WaitingApproval:
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


_APPROVALS = "/admin/approvals"
_APPROVAL = f"{_APPROVALS}/{{id:{ANY_ID}}}"
_MEANING = "The id of an approval, or at least its first four characters."
_NAMED = (Parameter("id", _MEANING, place="path", example="0192f7c8"),)


def approval_routes(approvals: ApprovalAdmin, rows: AdminRows, *, may_sign: bool) -> tuple[Route, ...]:
    """Requests that wait and that are settled. Only with `may_sign` can they be decided here."""
    rows = rows.under("Wallet administration")
    deciding = (ApprovalNotFoundError, ApprovalSettledError)
    shown = (
        rows.read(_APPROVALS, "approvals", approvals.handle_page,
                  "List requests for approval", "A page.", parameters=page_parameters()),
        rows.read(_APPROVAL, "approval", approvals.handle_show, "Show a request for approval", "The request.",
                  parameters=_NAMED, problems=(InvalidInputError, ApprovalNotFoundError)),
    )  # fmt: skip
    if not may_sign:
        return shown
    return (
        *shown,
        rows.write("POST", f"{_APPROVAL}/approve", "approve", approvals.approve, "Approve a request",
                   "The request, approved.", parameters=_NAMED, problems=deciding),
        rows.write("POST", f"{_APPROVAL}/reject", "reject", approvals.reject, "Reject a request",
                   "The request, rejected.", parameters=_NAMED, problems=deciding),
    )  # fmt: skip
