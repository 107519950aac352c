"""Token buckets that several processes spend from, exactly, by the arithmetic of `kernel/token_bucket.py`.
The charges of a moment are one statement, with one row a bucket, in one order in every process.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from typing import Any

from bridge_server.kernel.background import settle
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.token_bucket import Limit, Spending, reckoned_anew, spend
from bridge_server.kernel.values import dataclass
from bridge_server.storage.postgres import failures
from bridge_server.storage.postgres.connection import KeptConnection

_MOST_BUCKETS = 500
_MOST_WAITING = 20_000
_NOT_LOOKED_UP = "The limits cannot be looked up"
CLOCKS_DIFFER_US = 2_000_000
"""The most by which clocks of two processes may differ. A bucket with a debt up to so far beyond all of its
tokens was charged by a clock that is ahead; one with a larger debt, before a clock was set back."""
# The bucket after a charge: its debt is as many tokens as before a limit was changed, and no more than all.
# `excluded` is the charge as it would be with a full bucket.
_AFTER = f"""
(SELECT CASE WHEN owes.until_us > $1 + l.window_us + {CLOCKS_DIFFER_US} THEN $1 + l.window_us
        ELSE greatest(owes.until_us, $1) END
FROM (SELECT CASE
    WHEN b.full_at_us <= $1 OR b.interval_us IS NULL OR b.interval_us = excluded.interval_us THEN b.full_at_us
    ELSE $1 + (least(((b.full_at_us - $1) * l.gain + b.interval_us - 1) / b.interval_us, l.burst)
        * excluded.interval_us + l.gain - 1) / l.gain
END AS until_us) AS owes) + excluded.full_at_us - $1
"""  # noqa: S608 - a number
_OF_LIMIT = "FROM limits AS l WHERE l.limit_name = excluded.limit_name"
_SPEND = f"""
WITH mode AS MATERIALIZED (
    SELECT set_config('synchronous_commit',
        CASE WHEN $10::boolean THEN current_setting('synchronous_commit') ELSE 'off' END, true)
), asked AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY
        AS a (limit_name, key, price_us, place)
), limits AS MATERIALIZED (
    SELECT * FROM unnest($5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
        AS l (limit_name, interval_us, gain, burst, window_us)
), spent AS (
    INSERT INTO buckets AS b (limit_name, key, full_at_us, interval_us)
    SELECT a.limit_name, a.key, $1::bigint + a.price_us, l.interval_us
    FROM asked AS a JOIN limits AS l USING (limit_name) CROSS JOIN mode
    WHERE a.price_us <= l.window_us
    ORDER BY a.limit_name COLLATE "C", a.key COLLATE "C"
    ON CONFLICT (limit_name, key) DO UPDATE
    SET full_at_us = (SELECT {_AFTER} {_OF_LIMIT}), interval_us = excluded.interval_us
    WHERE excluded.full_at_us <= $1 OR (SELECT {_AFTER} <= $1 + l.window_us {_OF_LIMIT})
    RETURNING limit_name, key, full_at_us
)
SELECT s.full_at_us, b.full_at_us, b.interval_us
FROM asked AS a
LEFT JOIN spent AS s ON s.limit_name = a.limit_name AND s.key = a.key
LEFT JOIN buckets AS b ON s.key IS NULL AND b.limit_name = a.limit_name AND b.key = a.key
ORDER BY a.place
"""  # noqa: S608 - its own parts


@dataclass(frozen=True, slots=True)
class Spent:
    """The outcome of a charge, and its extra tokens."""

    spending: Spending
    extra: int = 0


@dataclass(slots=True, eq=False)
class WaitingCharge:
    """One charge that waits."""

    tokens: int
    """The tokens to charge; below 0 they are given back."""
    extra: int
    """Further tokens, which are taken if there are as many."""
    is_durable: bool
    done: asyncio.Future[Spent] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def was_cancelled(self) -> bool:
        """Whether it is for a lease and was cancelled: its tokens would be lost."""
        return self.done.cancelled() and not self.is_durable


@dataclass(slots=True, eq=False)
class BucketCharges:
    """The charges of one bucket that wait, and how many of them, in their order, are attempted at once."""

    limit: Limit
    key: str
    asks: list[WaitingCharge] = field(default_factory=list)
    most: int | None = None
    """The tokens that were left the last time."""
    has_extra: bool = True

    def attempted(self) -> list[WaitingCharge]:
        """The charges that fit together; the first, if none does."""
        left = self.limit.burst if self.most is None else self.most
        fitting: list[WaitingCharge] = []
        for ask in self.asks:
            left -= ask.tokens
            if left < 0 and fitting:
                break
            fitting.append(ask)
        return fitting

    def extra_of(self, attempted: Sequence[WaitingCharge]) -> int:
        """The extra tokens that one of these has."""
        return max(ask.extra for ask in attempted) if self.has_extra else 0

    def allow(self, attempt: Sequence[WaitingCharge], extra: int, after_us: int, now_us: int) -> None:
        """Answer each charge with the bucket's state after it. The last one that asked for extra tokens has
        them. Tokens of cancelled charges go back.
        """
        limit, later = self.limit, sum(ask.tokens for ask in attempt)
        leasing = [ask for ask in attempt if ask.extra and not ask.was_cancelled]
        unclaimed = sum(max(0, ask.tokens) for ask in attempt if ask.was_cancelled) + (
            0 if leasing else extra
        )
        for ask in attempt:
            later -= ask.tokens
            spending = spend(limit, after_us - limit.price_us(later), now_us, cost=0)
            settle(ask.done, Spent(spending, extra if leasing and ask is leasing[-1] else 0))
        del self.asks[: len(attempt)]
        if unclaimed:
            self.asks.insert(0, WaitingCharge(-unclaimed, 0, is_durable=False))
        self.most, self.has_extra = spend(limit, after_us, now_us, cost=0).remaining, True

    def refuse(self, attempt: Sequence[WaitingCharge], extra: int, present_us: int, now_us: int) -> None:
        """Keep charges that may fit for the next attempt: without extra tokens, or fewer at once. A charge
        that does not fit alone is refused, with every waiting charge of at least its size.
        """
        if extra or len(attempt) > 1:
            self.has_extra = False
            left = spend(self.limit, present_us, now_us, cost=0).remaining
            together = sum(ask.tokens for ask in attempt)
            self.most = left if extra and together <= left else min(left, together - 1)
            return
        least = attempt[0].tokens
        refused = [ask for ask in self.asks if ask.tokens >= least]
        self.asks = [ask for ask in self.asks if ask.tokens < least]
        for ask in refused:
            settle(ask.done, Spent(refusal(self.limit, present_us, now_us, ask.tokens)))


class SharedBuckets:
    """The buckets in the database, by a connection of their own."""

    def __init__(self, link_of: Callable[[], KeptConnection], clock: Clock) -> None:
        """`link_of` makes the connection, once the database is open."""
        self._link_of = link_of
        self._clock = clock
        self._link: KeptConnection | None = None
        self._rows: dict[tuple[str, str], BucketCharges] = {}
        self._waiting = 0
        self._serving: asyncio.Task[None] | None = None
        self._prepared: tuple[Any, Any] = (None, None)
        self._names = 0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Hold the connection. Raises what asyncpg raises, and OSError."""
        self._link = self._link_of()
        async with self._link.held():
            await self._link.connect()
            try:
                yield
            finally:
                if self._serving is not None:
                    await asyncio.wait([self._serving])

    async def spend(
        self, limit: Limit, key: str, tokens: int, *, extra: int = 0, is_durable: bool = True
    ) -> Spent:
        """Try to take the tokens; fewer than 0 are given back. `extra` tokens are taken besides, by one
        charge of this moment, if there are as many. A charge that is not durable may be forgotten when the
        database server crashes. Raises UnavailableError.
        """
        if self._link is None or not self._link.is_open or self._waiting >= _MOST_WAITING:
            reason = "there is no connection to the database, or too many wait for it"
            raise failures.unasked(_NOT_LOOKED_UP, reason)
        ask = WaitingCharge(tokens, extra, is_durable)
        self._enqueue(limit, key, ask)
        try:
            return await ask.done
        except asyncio.CancelledError:
            is_lost = not (is_durable or ask.done.cancelled() or ask.done.exception())
            if is_lost and (spent := ask.done.result()).spending.allowed:
                self._enqueue(limit, key, WaitingCharge(-max(0, tokens) - spent.extra, 0, is_durable=False))
            raise

    def _enqueue(self, limit: Limit, key: str, ask: WaitingCharge) -> None:
        row = self._rows.get((limit.name, key))
        if row is None:
            row = self._rows[limit.name, key] = BucketCharges(limit, key)
        row.asks.insert(0 if ask.tokens < 0 else len(row.asks), ask)
        self._waiting += 1
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        """Charge until nothing waits. What comes during a statement waits for the next one."""
        try:
            while rows := self._taken():
                try:
                    await self._charge(rows)
                except Exception as error:
                    self._fail(rows, error)
        finally:
            self._serving = None

    def _taken(self) -> list[BucketCharges]:
        taken = []
        for bucket in list(self._rows)[:_MOST_BUCKETS]:
            row = self._rows.pop(bucket)
            self._waiting -= len(row.asks)
            row.asks = [ask for ask in row.asks if not ask.done.done()]
            if row.asks:
                taken.append(row)
        return taken

    async def _charge(self, rows: list[BucketCharges]) -> None:
        """Charge these, and again charges that were refused together and fit alone."""
        while rows:
            now_us = self._clock.now_us()
            attempts = [row.attempted() for row in rows]
            extras = [row.extra_of(attempt) for row, attempt in zip(rows, attempts, strict=True)]
            answers = await self._exchange(now_us, rows, attempts, extras)
            for row, attempt, extra, answer in zip(rows, attempts, extras, answers, strict=True):
                after_us, before_us, interval_us = answer
                if after_us is not None:
                    row.allow(attempt, extra, after_us, now_us)
                    continue
                present_us = present_of(row.limit, before_us, interval_us, now_us)
                row.refuse(attempt, extra, present_us, now_us)
                debt_us = present_us - now_us - row.limit.window_us
                if debt_us > CLOCKS_DIFFER_US or interval_us != row.limit.interval_us:
                    # The charge writes the bucket by the present clock and limit, which a refusal does not.
                    row.asks.insert(0, WaitingCharge(0, 0, is_durable=False))
            rows = [row for row in rows if row.asks]

    async def _exchange(
        self,
        now_us: int,
        rows: Sequence[BucketCharges],
        attempts: Sequence[Sequence[WaitingCharge]],
        extras: Sequence[int],
    ) -> list[Any]:
        prices = [
            row.limit.price_us(sum(ask.tokens for ask in attempt) + extra)
            for row, attempt, extra in zip(rows, attempts, extras, strict=True)
        ]
        limits = {row.limit.name: row.limit for row in rows}.values()
        arguments = (
            now_us,
            [row.limit.name for row in rows], [row.key for row in rows], prices,
            [each.name for each in limits], [each.interval_us for each in limits],
            [each.gain for each in limits], [each.burst for each in limits],
            [each.window_us for each in limits],
            any(ask.is_durable for attempt in attempts for ask in attempt),
        )  # fmt: skip
        try:
            return await self._fetched(arguments)
        except Exception as error:
            if not failures.is_stale(error):
                raise
            self._prepared = (None, None)
            return await self._fetched(arguments)

    async def _fetched(self, arguments: Sequence[Any]) -> list[Any]:
        assert self._link is not None
        wire = self._link.wire
        try:
            if self._prepared[0] is not wire:
                self._names += 1
                self._prepared = (wire, await wire.prepare(_SPEND, name=f"bridge_buckets_{self._names}"))
            rows: list[Any] = await self._prepared[1].fetch(*arguments)
        except Exception as error:
            found = failures.lost_or(error, wire)
            if isinstance(found, TimeoutError):
                self._link.drop()
            raise found from error
        return rows

    def _fail(self, rows: Sequence[BucketCharges], error: Exception) -> None:
        """Fail these charges; without a connection, also all others that wait."""
        if self._link is not None:
            self._link.note(error)
        reason = failures.passing_failure(error)
        failure = error if reason is None else failures.unasked(_NOT_LOOKED_UP, reason)
        left = [row for row in rows if row.asks]
        if isinstance(error, failures.LostConnectionError):
            left += self._rows.values()
            self._rows, self._waiting = {}, 0
        for row in left:
            for ask in row.asks:
                settle(ask.done, None, failure)


def present_of(limit: Limit, full_at_us: int | None, interval_us: int | None, now_us: int) -> int:
    """The bucket as it was when a charge was refused."""
    if full_at_us is None:
        return 0
    return reckoned_anew(full_at_us, now_us, interval_us or limit.interval_us, limit.interval_us, limit.gain)


def refusal(limit: Limit, full_at_us: int, now_us: int, tokens: int) -> Spending:
    """The refusal by the last known state of the bucket: another process may have given tokens back since."""
    found = spend(limit, full_at_us, now_us, tokens)
    if not found.allowed:
        return found
    return replace(spend(limit, full_at_us, now_us, cost=0), allowed=False, retry_after_us=1)
