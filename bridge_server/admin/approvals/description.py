"""The approvals' routes of the admin API described."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.wallet.errors import ApprovalNotFoundError, ApprovalSettledError
from bridge_server.wallet.models import ApprovalState
from bridge_server.web.description import (
    Address,
    AnswerShape,
    DescribedAnswer,
    Moment,
    Operation,
    Parameter,
    operation,
    page_parameters,
    text,
)

_ID = Parameter(
    "id", "The id of an approval, or at least its first four characters.", place="path", example="0192f7c8"
)


class ApprovalAnswer(AnswerShape):
    """A request that a person must approve."""

    id: Annotated[str, text("0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8")]
    state: ApprovalState
    method: Annotated[str, text("personal_sign")]
    account: Address
    client: Annotated[str, text("127.0.0.1")]
    origin: Annotated[str, text("https://app.example.org")] | None
    request_id: Annotated[str, text("0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f")]
    asked_at: Moment
    expires_at: Moment
    decided_at: Moment | None


class ApprovalLineAnswer(AnswerShape):
    """A line of the data to sign, in words."""

    label: Annotated[str, text("message")]
    text: str


class ApprovalDetailsAnswer(ApprovalAnswer):
    """A request with the data to sign, and a description of these data in words."""

    subject: Any
    text: list[ApprovalLineAnswer]


class ApprovalsAnswer(AnswerShape):
    """A page of requests: waiting requests, then settled requests, each newest first."""

    approvals: list[ApprovalAnswer]
    next: Annotated[str, text("settled-7")] | None


_operation = partial(operation, "Wallet administration")

APPROVAL_OPERATIONS: Mapping[str, Operation] = {
    "approvals": _operation(
        "List requests for approval",
        "Requests that wait for a decision, then settled requests, each newest first.",
        DescribedAnswer(200, "A page.", ApprovalsAnswer),
        parameters=page_parameters(),
    ),
    "approval": _operation(
        "Show a request for approval",
        "A request with the data to sign, and a description of these data in words.",
        DescribedAnswer(200, "The request.", ApprovalDetailsAnswer),
        parameters=(_ID,),
        problems=(InvalidInputError, ApprovalNotFoundError),
    ),
    "approve": _operation(
        "Approve a request",
        "The wallet signs at once, and its client gets the answer. The route exists with `admin_wallet`.",
        DescribedAnswer(200, "The request, approved.", ApprovalDetailsAnswer),
        parameters=(_ID,),
        problems=(ApprovalNotFoundError, ApprovalSettledError),
    ),
    "reject": _operation(
        "Reject a request",
        "Its client gets the error 4001. The route exists with `admin_wallet`.",
        DescribedAnswer(200, "The request, rejected.", ApprovalDetailsAnswer),
        parameters=(_ID,),
        problems=(ApprovalNotFoundError, ApprovalSettledError),
    ),
}
