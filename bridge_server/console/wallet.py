"""The page of the wallet: approvals, accounts, transactions and signatures."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

from bridge_server.admin.wallet import ApprovalAdmin, ApprovalLineAnswer, UnlockShape, WalletAdmin
from bridge_server.console.models import ROOT, Asked, ConsolePage, Done, PagePath, View, number_of
from bridge_server.ethereum.address import HexError, quantity_of
from bridge_server.wallet.accounts import DEFAULT_UNLOCK_SECONDS
from bridge_server.wallet.models import ApprovalState, TransactionState
from bridge_server.wallet.visible_text import ether
from bridge_server.web.bodies import check

_WALLET = "/wallet"
_APPROVAL = f"{_WALLET}/approvals/{{id:[^/]{{1,128}}}}"
_LIVE = ("wallet",)
_PAGE = 25

WalletSource: TypeAlias = Callable[[], Awaitable[tuple[int, str | None]]]


class WalletPage:
    """The views and changes of the wallet; without `may_sign` no changes. `source` gives the number of this
    process, and the URL of another one that has the wallet; it is None for a single process.
    """

    def __init__(
        self, approvals: ApprovalAdmin, wallet: WalletAdmin, source: WalletSource | None, *, may_sign: bool
    ) -> None:
        self._approvals, self._wallet = approvals, wallet
        self._source, self._may_sign = source, may_sign
        of_wallet = {"unlock": self.unlock, "lock": self.lock} if self._may_sign else {}
        of_approval = {"approve": self.approve, "reject": self.reject} if self._may_sign else {}
        paths = (
            PagePath(_WALLET, self.show, of_wallet),
            PagePath(_APPROVAL, self.show_approval, of_approval),
            PagePath(f"{_WALLET}/transactions", self.show_transactions),
            PagePath(f"{_WALLET}/signatures", self.show_signatures),
        )
        self.page = ConsolePage("wallet", "Wallet", "Live", paths, self._count)

    async def show(self, asked: Asked) -> View:
        """The requests that wait and that are settled, and every account."""
        fields = {**await self._wallet.accounts(), "usual_seconds": DEFAULT_UNLOCK_SECONDS}
        return View("wallet/wallet.html", {**await self._list(asked), **fields}, _LIVE)

    async def show_approval(self, asked: Asked) -> View:
        """One request, in words."""
        fields = await self._approvals.show(asked.names["id"])
        opened = {"approval": fields, "words": _words(fields["text"])}
        return View("wallet/approval.html", {**await self._list(asked), **opened}, _LIVE)

    async def show_transactions(self, asked: Asked) -> View:
        """A page of transactions, of one state or of all."""
        state, after = asked.query.get("state", ""), asked.query.get("after", "")
        page = await self._wallet.transactions(state or None, after, _PAGE)
        values = {each["id"]: _amount(each["value"]) for each in page["transactions"]}
        fields = {**page, "values": values, "states": list(TransactionState), "state_of_list": state}
        return View("wallet/transactions.html", {**fields, **await self._origin(after)}, _LIVE)

    async def show_signatures(self, asked: Asked) -> View:
        """A page of the audit log."""
        after = asked.query.get("after", "")
        found = await self._wallet.signatures(after, _PAGE)
        return View("wallet/signatures.html", {**found, **await self._origin(after)}, _LIVE)

    async def approve(self, asked: Asked) -> Done:
        decided = await self._approvals.decide(asked.names["id"], ApprovalState.APPROVED)
        return Done(_path(decided["id"]), "The request is approved: the wallet signs it.")

    async def reject(self, asked: Asked) -> Done:
        decided = await self._approvals.decide(asked.names["id"], ApprovalState.REJECTED)
        return Done(_path(decided["id"]), "The request is rejected.")

    async def unlock(self, asked: Asked) -> Done:
        seconds = number_of(asked.form.get("seconds", "").strip())
        values = {"passphrase": asked.form.get("passphrase", ""), "seconds": seconds}
        account = await self._wallet.unlock(asked.form.get("account", ""), check(UnlockShape, values))
        until = account["unlocked_until"] or "the server stops"
        return Done(f"{ROOT}{_WALLET}", f"{account['account']} is unlocked until {until}.")

    async def lock(self, asked: Asked) -> Done:
        account = await self._wallet.lock(asked.form.get("account", ""))
        return Done(f"{ROOT}{_WALLET}", f"{account['account']} is locked.")

    async def _list(self, asked: Asked) -> dict[str, Any]:
        after = asked.query.get("after", "")
        page = await self._approvals.page(after, _PAGE)
        return {**page, **await self._origin(after), "may_sign": self._may_sign}

    async def _origin(self, after: str) -> dict[str, Any]:
        """The place in the list, and the process whose wallet the page shows, where there are several."""
        process, holder = (None, None) if self._source is None else await self._source()
        return {"after": after, "process": process, "holder": holder}

    async def _count(self) -> int:
        return self._approvals.waiting


def _path(approval_id: str) -> str:
    return f"{ROOT}{_WALLET}/approvals/{quote(approval_id, safe='')}"


def _words(lines: Sequence[ApprovalLineAnswer]) -> list[tuple[str, list[str]]]:
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
