"""`bridge-server approvals`: what the wallet is asked to sign, for somebody to decide."""

from __future__ import annotations  # those of inner functions would be evaluated at every call

import click
import orjson

from bridge_server.cli.operator import Operator, columns, for_operator
from bridge_server.cli.options import CommandError
from bridge_server.ethereum.address import checksummed
from bridge_server.kernel.instants import rfc3339
from bridge_server.operations import Operations
from bridge_server.wallet.explaining import explain
from bridge_server.wallet.models import Approval, ApprovalState

_SHOWN_OF_AN_ID = 8


@click.group("approvals")
def approvals_group() -> None:
    """Decide what the wallet signs, on a server with approve = "queue".

    An APPROVAL is named by its id, or by as many characters of its beginning as tell it from others.
    """


@approvals_group.command("list")
@for_operator
def list_command(operator: Operator) -> None:
    """Print the requests that wait, oldest first."""

    async def pending(opened: Operations) -> list[Approval]:
        return list(await opened.approvals.pending(opened.clock.now_ms()))

    waiting = operator.run(pending)
    header = ("approval", "method", "account", "client", "until")
    rows = [
        (
            approval.approval_id[:_SHOWN_OF_AN_ID],
            approval.method,
            checksummed(approval.address),
            approval.caller.origin or approval.caller.address,
            rfc3339(approval.expires_at_ms),
        )
        for approval in waiting
    ]
    operator.tell(
        {"approvals": [_fields(approval) for approval in waiting]},
        columns([header, *rows]) if rows else ["nothing waits to be approved"],
    )


@approvals_group.command("show")
@click.argument("approval")
@for_operator
def show_command(operator: Operator, approval: str) -> None:
    """Print what would be signed, in words."""
    found = operator.run(lambda opened: _named(opened, approval))
    operator.tell(_fields(found), _lines(found))


@approvals_group.command("approve")
@click.argument("approval")
@for_operator
def approve_command(operator: Operator, approval: str) -> None:
    """Have it signed."""
    _decide(operator, approval, ApprovalState.APPROVED)


@approvals_group.command("reject")
@click.argument("approval")
@for_operator
def reject_command(operator: Operator, approval: str) -> None:
    """Have it refused."""
    _decide(operator, approval, ApprovalState.REJECTED)


def _decide(operator: Operator, name: str, state: ApprovalState) -> None:
    async def decide(opened: Operations) -> Approval:
        approval = await _named(opened, name)
        if not await opened.approvals.decide(approval.approval_id, state, opened.clock.now_ms()):
            raise CommandError(f"{approval.approval_id} does not wait any more: it is {_standing(approval)}")
        return approval

    approval = operator.run(decide)
    lines = [f"{state.value}: {approval.method} with {checksummed(approval.address)}"]
    operator.tell({**_fields(approval), "state": state.value}, lines)


async def _named(opened: Operations, name: str) -> Approval:
    found = await opened.approvals.named(name.lower())
    if not found:
        raise CommandError(
            f"there is no approval {name}: `bridge-server approvals list` prints those that wait"
        )
    if len(found) > 1 and found[0].approval_id != name.lower():
        raise CommandError(f"several approvals begin with {name}: write more of the id")
    return found[0]


def _standing(approval: Approval) -> str:
    return "too late" if approval.state is ApprovalState.PENDING else approval.state.value


def _lines(approval: Approval) -> list[str]:
    about = [
        ("approval", approval.approval_id),
        ("state", approval.state.value),
        ("method", approval.method),
        ("account", checksummed(approval.address)),
        ("client", approval.caller.address),
        ("page", approval.caller.origin or "-"),
        ("asked", rfc3339(approval.asked_at_ms)),
        ("until", rfc3339(approval.expires_at_ms)),
    ]
    return columns([*about, *explain(approval.method, approval.subject)])


def _fields(approval: Approval) -> dict[str, object]:
    return {
        "id": approval.approval_id,
        "state": approval.state.value,
        "method": approval.method,
        "account": checksummed(approval.address),
        "client": approval.caller.address,
        "origin": approval.caller.origin,
        "asked_at": rfc3339(approval.asked_at_ms),
        "expires_at": rfc3339(approval.expires_at_ms),
        "subject": orjson.Fragment(approval.subject),
    }
