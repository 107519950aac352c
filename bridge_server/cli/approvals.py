"""`bridge-server approvals`: signing requests that wait for the operator's decision."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import click

from bridge_server.admin.approvals import wire
from bridge_server.assembly.operator import OperatorServices
from bridge_server.cli.groups import Group
from bridge_server.cli.operator import Operator, columns, for_operator, table
from bridge_server.cli.options import CommandError
from bridge_server.ethereum.address import checksummed
from bridge_server.kernel.instants import rfc3339
from bridge_server.storage.data_directory import is_held
from bridge_server.wallet.models import ApprovalRequest, ApprovalState

_HEADER = ("approval", "method", "account", "client", "until")
_SHOWN_OF_AN_ID = 8
_LEAST_OF_AN_ID = 4
"""The fewest characters that name a request: an empty variable or a typing mistake must not select one."""

Result = TypeVar("Result")


@click.group("approvals", cls=Group)
def approvals_group() -> None:
    """Approve or reject signing requests, on a server with the setting approve = "queue".

    APPROVAL is the id of a request, or the first characters of it (at least 4) if no other id has them.
    """


@approvals_group.command("list")
@for_operator
def list_command(operator: Operator) -> None:
    """Print the waiting requests, oldest first."""

    async def pending(opened: OperatorServices) -> Sequence[ApprovalRequest]:
        return await opened.approvals.pending(opened.clock.now_ms())

    waiting = _run(operator, pending)
    operator.show(
        {"approvals": [wire.approval_fields(approval) for approval in waiting]},
        table(_HEADER, [_row(approval) for approval in waiting], "no request is waiting for approval"),
    )


@approvals_group.command("show")
@click.argument("approval")
@for_operator
def show_command(operator: Operator, approval: str) -> None:
    """Print in words what a request would sign."""
    found = _run(operator, lambda opened: _named(opened, approval))
    operator.show(wire.approval_fields(found), columns(wire.lines(found)))


@approvals_group.command("approve")
@click.argument("approval")
@for_operator
def approve_command(operator: Operator, approval: str) -> None:
    """Approve a request: the wallet signs it."""
    _decide(operator, approval, ApprovalState.APPROVED)


@approvals_group.command("reject")
@click.argument("approval")
@for_operator
def reject_command(operator: Operator, approval: str) -> None:
    """Reject a request: its caller gets the error 4001."""
    _decide(operator, approval, ApprovalState.REJECTED)


def _decide(operator: Operator, name: str, decision: ApprovalState) -> None:
    async def decide(opened: OperatorServices) -> ApprovalRequest:
        approval = await _named(opened, name)
        is_decided = await opened.approvals.decide(approval.approval_id, decision, opened.clock.now_ms())
        approval = await opened.approvals.get(approval.approval_id) or approval
        if not is_decided:
            raise CommandError(f"{approval.approval_id} is not waiting any more: it is {_outcome(approval)}")
        return approval

    decided = _run(operator, decide)
    operator.show(
        wire.approval_fields(decided),
        [f"{decided.state}: {decided.method} with {checksummed(decided.address)}"],
    )


def _run(operator: Operator, work: Callable[[OperatorServices], Awaitable[Result]]) -> Result:
    """Run `work`. Without a running server every waiting request expires first: nothing could sign it.

    A server on another machine may use the PostgreSQL database of this one.
    """

    async def on_waiting_requests(opened: OperatorServices) -> Result:
        if operator.settings.database is None and not is_held(operator.settings.data_dir):
            await opened.approvals.expire_all(opened.clock.now_ms())
        return await work(opened)

    return operator.run(on_waiting_requests)


async def _named(opened: OperatorServices, name: str) -> ApprovalRequest:
    if len(name) < _LEAST_OF_AN_ID:
        raise CommandError(f"write at least {_LEAST_OF_AN_ID} characters of the approval's id")
    found = await opened.approvals.named(name.lower())
    if not found:
        raise CommandError(
            f"there is no approval {name}: `bridge-server approvals list` prints the pending ones"
        )
    if len(found) > 1:
        raise CommandError(f"several approvals begin with {name}: write more of the id")
    return found[0]


def _outcome(approval: ApprovalRequest) -> str:
    """The state of a request that can no longer be decided: a pending one has expired."""
    return ApprovalState.EXPIRED if approval.state is ApprovalState.PENDING else approval.state


def _row(approval: ApprovalRequest) -> tuple[str, ...]:
    return (
        approval.approval_id[:_SHOWN_OF_AN_ID],
        approval.method,
        checksummed(approval.address),
        approval.caller.origin or approval.caller.address,
        rfc3339(approval.expires_at_ms),
    )
