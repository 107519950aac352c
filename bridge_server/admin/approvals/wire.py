"""JSON of requests for approval, which commands with --json print too."""

import re
from typing import Any

import orjson

from bridge_server.admin.approvals.service import ApprovalPage, ApprovalPlace
from bridge_server.ethereum.address import checksummed
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.wallet.explaining.explaining import explain
from bridge_server.wallet.models import ApprovalRequest, ApprovalState

_PLACE = re.compile(r"(waiting|settled)-([0-9]{1,18})", re.ASCII)


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
