"""The page of the wallet: approvals, accounts, transactions and signatures."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from bridge_server.admin import wallet
from bridge_server.admin.approvals import ApprovalDesk, page_fields, read_place, whole_fields
from bridge_server.admin.rows import read_number
from bridge_server.admin.wallet import WalletDesk
from bridge_server.console.models import (
    ROOT,
    Asked,
    Change,
    ConsolePage,
    Done,
    NavigationGroup,
    PagePath,
    View,
    number_of,
)
from bridge_server.ethereum.address import HexError, quantity_of
from bridge_server.wallet.accounts import DEFAULT_UNLOCK_SECONDS
from bridge_server.wallet.models import ApprovalState, TransactionState
from bridge_server.wallet.visible_text import ether
from bridge_server.web.bodies import JsonObject

_WALLET = "/wallet"
_APPROVAL = f"{_WALLET}/approvals/{{id:[^/]{{1,128}}}}"
_LIVE = ("wallet",)
_PAGE = 25


class WalletPage:
    """The views and changes of the wallet. Only with `may_sign` has it buttons."""

    def __init__(self, approvals: ApprovalDesk, wallet: WalletDesk, *, may_sign: bool) -> None:
        self._approvals = approvals
        self._wallet = wallet
        self._may_sign = may_sign

    def page(self) -> ConsolePage:
        """The entry of the navigation, with the number of requests that wait."""
        return ConsolePage(
            "wallet",
            "Wallet",
            NavigationGroup.LIVE,
            (
                PagePath(_WALLET, self.show, self._if_signing({"unlock": self.unlock, "lock": self.lock})),
                PagePath(
                    _APPROVAL,
                    self.show_approval,
                    self._if_signing({"approve": self.approve, "reject": self.reject}),
                ),
                PagePath(f"{_WALLET}/transactions", self.show_transactions),
                PagePath(f"{_WALLET}/signatures", self.show_signatures),
            ),
            self._count,
        )

    async def show(self, asked: Asked) -> View:
        """The requests that wait and that are settled, and every account."""
        fields = {
            **await self._list(asked),
            **wallet.account_list_fields(self._wallet.accounts()),
            "usual_seconds": DEFAULT_UNLOCK_SECONDS,
        }
        return View("wallet/wallet.html", fields, _LIVE)

    async def show_approval(self, asked: Asked) -> View:
        """One request, in words."""
        found = await self._approvals.named(asked.names["id"])
        fields = whole_fields(found, self._approvals.now_ms())
        opened = {"approval": fields, "words": _words(fields["text"])}
        return View("wallet/approval.html", {**await self._list(asked), **opened}, _LIVE)

    async def show_transactions(self, asked: Asked) -> View:
        """A page of transactions, of one state or of all."""
        state = asked.query.get("state", "")
        wanted, before = wallet.read_state({"state": state} if state else {}), _number(asked)
        found = await self._wallet.transactions(wanted, before, _PAGE)
        # A signed transaction is read with its signature, 0.1 ms each.
        page = await asyncio.to_thread(wallet.transaction_page_fields, found)
        values = {each["id"]: _amount(each["value"]) for each in page["transactions"]}
        fields = {**page, "values": values, "states": list(TransactionState), "state_of_list": state}
        return View("wallet/transactions.html", {**fields, "after": asked.query.get("after", "")}, _LIVE)

    async def show_signatures(self, asked: Asked) -> View:
        """A page of the audit log."""
        found = wallet.audit_page_fields(await self._wallet.signatures(_number(asked), _PAGE))
        return View("wallet/signatures.html", {**found, "after": asked.query.get("after", "")}, _LIVE)

    async def approve(self, asked: Asked) -> Done:
        decided = await self._approvals.decide(asked.names["id"], ApprovalState.APPROVED)
        return Done(_path(decided.approval_id), "The request is approved: the wallet signs it.")

    async def reject(self, asked: Asked) -> Done:
        decided = await self._approvals.decide(asked.names["id"], ApprovalState.REJECTED)
        return Done(_path(decided.approval_id), "The request is rejected.")

    async def unlock(self, asked: Asked) -> Done:
        address = wallet.read_address(asked.form.get("account", ""))
        seconds = number_of(asked.form.get("seconds", "").strip())
        values = {"passphrase": asked.form.get("passphrase", ""), "seconds": seconds}
        wanted = wallet.read_unlock(JsonObject(values, None))
        account = wallet.account_fields(await self._wallet.unlock(address, wanted.passphrase, wanted.seconds))
        until = account["unlocked_until"] or "the server stops"
        return Done(f"{ROOT}{_WALLET}", f"{account['account']} is unlocked until {until}.")

    async def lock(self, asked: Asked) -> Done:
        address = wallet.read_address(asked.form.get("account", ""))
        account = wallet.account_fields(self._wallet.lock(address))
        return Done(f"{ROOT}{_WALLET}", f"{account['account']} is locked.")

    def _if_signing(self, changes: Mapping[str, Change]) -> Mapping[str, Change]:
        return changes if self._may_sign else {}

    async def _list(self, asked: Asked) -> dict[str, Any]:
        after = asked.query.get("after", "")
        place = read_place(after)
        found = await self._approvals.page(place, _PAGE)
        page = page_fields(found, self._approvals.now_ms())
        return {**page, "after": after, "may_sign": self._may_sign}

    async def _count(self) -> int:
        return self._approvals.waiting


def _path(approval_id: str) -> str:
    return f"{ROOT}{_WALLET}/approvals/{quote(approval_id, safe='')}"


def _number(asked: Asked) -> int | None:
    return read_number(asked.query.get("after", ""))


def _words(lines: list[dict[str, str]]) -> list[tuple[str, list[str]]]:
    """Each label with its lines, also with the lines that have no label. The state has a mark of its own."""
    words: list[tuple[str, list[str]]] = []
    for line in lines:
        if line["label"] or not words:
            words.append((line["label"], []))
        words[-1][1].append(line["text"])
    return [(label, texts) for label, texts in words if label != "state"]


def _amount(value: Any) -> str:
    """The value in ether; a value that is no QUANTITY as it came."""
    try:
        return ether(quantity_of(value))
    except HexError:
        return "" if value is None else str(value)
