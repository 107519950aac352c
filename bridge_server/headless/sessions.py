"""A session as the test program sees it: its dapp, its accounts, its chain, its state."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from bridge_server.kernel.errors import ConflictError, InvalidInputError, NotFoundError

SessionGeneration = Literal["plain", "0.7", "1.x", "2.x", "page"]
"""The protocol's generation; `page` is a web page that calls an injected provider."""


class SessionState(StrEnum):
    """The state of a session."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    ENDED = "ended"


class SessionStateError(ConflictError):
    """The state of the session forbids the change."""

    code = "session-state"
    title = "The session's state forbids it"


class UnknownSessionError(NotFoundError):
    """There is no such session."""

    code = "unknown-session"
    title = "Unknown session"


class UnknownIndexError(InvalidInputError):
    """The wallet has no such account."""

    code = "unknown-index"
    title = "Unknown account"


@dataclass(frozen=True, slots=True)
class DappFacts:
    """The dapp, as it introduces itself. `url` is empty when it has no page."""

    name: str
    url: str


class Link(Protocol):
    """The way to the dapp: a bridge, or a web page."""

    async def connect(self, session: "HeadlessSession") -> None:
        """Have the session decided, if the dapp can ask for that. Raises SignatureRejectedError."""
        ...

    async def update(self, session: "HeadlessSession", *, accounts: bool, chain: bool) -> None:
        """Tell the dapp the session's accounts and chain; the flags say which of them have changed."""
        ...

    async def end(self, session: "HeadlessSession") -> None:
        """Tell the dapp that the session is over."""
        ...

    async def leave(self) -> None:
        """Let go of the connection, and not of the session."""
        ...

    def lose(self, call: Any) -> None:
        """Give up a call of the session that nobody will answer."""
        ...


class NumberedAccounts:
    """All accounts of a wallet. A number is a place in their order; an address may have any case."""

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = addresses
        self._by_lower_case = {address.lower(): address for address in addresses}

    def named(self, accounts: "list[int | str] | tuple[int | str, ...]") -> tuple[str, ...]:
        """The addresses. Raises UnknownIndexError."""
        return tuple(map(self._named, accounts))

    def _named(self, account: int | str) -> str:
        if isinstance(account, str) and account.lower() in self._by_lower_case:
            return self._by_lower_case[account.lower()]
        if isinstance(account, int) and 0 <= account < len(self._addresses):
            return self._addresses[account]
        raise UnknownIndexError(
            f"The wallet has no account {account}: name one of its addresses, or a number from 0 to "
            f"{len(self._addresses) - 1}."
        )


class HeadlessSession:
    """A session with a dapp. The wallet makes it; the test program changes and ends it."""

    def __init__(
        self,
        session_id: str,
        generation: SessionGeneration,
        topic: str,
        accounts: tuple[str, ...],
        chain_id: int,
        known: NumberedAccounts,
        link: Link,
    ) -> None:
        self.id = session_id
        self.generation = generation
        self.topic = topic
        """The beginning of the pairing URI, for the terminal; empty for a page."""
        self.dapp = DappFacts("", "")
        self.origin = ""
        self.accounts = accounts
        self.chain_id = chain_id
        self.state = SessionState.PROPOSED
        self.ended_by = ""
        """`dapp`, `wallet` or `bridge`, once the session is over."""
        self.reason = ""
        self._known = known
        self.link = link
        self.decision: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether the wallet may sign for the session."""
        return self.state is SessionState.APPROVED

    @property
    def is_over(self) -> bool:
        """Whether the session was rejected or has ended."""
        return self.state in (SessionState.REJECTED, SessionState.ENDED)

    def has_account(self, address: object) -> bool:
        """Whether the session was given the account."""
        return isinstance(address, str) and address.lower() in {each.lower() for each in self.accounts}

    async def approve(self) -> None:
        """Approve a session that waits. Raises SessionStateError."""
        self._decide(is_approved=True)

    async def reject(self) -> None:
        """Reject a session that waits. Raises SessionStateError."""
        self._decide(is_approved=False)

    async def switch_account(self, *accounts: int | str) -> None:
        """Give the dapp other accounts, by number or address.

        Raises UnknownIndexError, SessionStateError, BridgeClientError.
        """
        await self.change(accounts=list(accounts))

    async def switch_chain(self, chain_id: int) -> None:
        """Go to another chain. Raises SessionStateError, BridgeClientError."""
        await self.change(chain_id=chain_id)

    async def change(self, accounts: list[int | str] | None = None, chain_id: int | None = None) -> None:
        """Give the dapp other accounts, or another chain, or both. Raises what `switch_account` raises."""
        addresses = self.accounts if accounts is None else self._known.named(accounts)
        if not addresses:
            raise UnknownIndexError("A session has at least one account: end it to take all of them away.")
        self._require(SessionState.APPROVED, "only an approved session can be changed")
        former_accounts, former_chain = self.accounts, self.chain_id
        self.accounts, self.chain_id = addresses, self.chain_id if chain_id is None else chain_id
        try:
            await self.link.update(
                self, accounts=self.accounts != former_accounts, chain=self.chain_id != former_chain
            )
        except BaseException:
            self.accounts, self.chain_id = former_accounts, former_chain
            raise

    async def disconnect(self) -> None:
        """End the session; the dapp hears of it. Again, it changes nothing. Raises BridgeClientError."""
        if not self.is_over:
            await self.link.end(self)

    async def wait_until_over(self) -> None:
        """Return when the session was rejected or has ended."""
        await self._over.wait()

    def end(self, state: SessionState, ended_by: str, reason: str = "") -> None:
        """Note that the session is over. The first reason stays."""
        if not self.is_over:
            self.state, self.ended_by, self.reason = state, ended_by, reason
        self._over.set()

    def _decide(self, *, is_approved: bool) -> None:
        self._require(SessionState.PROPOSED, "only a session that waits can be decided")
        if self.decision.done():
            raise SessionStateError("The session has been decided.")
        self.decision.set_result(is_approved)

    def _require(self, state: SessionState, rule: str) -> None:
        if self.state is not state:
            raise SessionStateError(f"The session is {self.state}: {rule}.")
