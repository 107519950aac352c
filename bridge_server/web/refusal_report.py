"""Requests that were answered 429, counted by address, in one line of the log now and then.

An attack from everywhere must not fill memory or the log: the number of addresses counted is limited.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

_REPORT_SECONDS = 60.0
_MOST_ADDRESSES = 1_000
_NAMED_ADDRESSES = 10

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RefusalReport:
    """The number of refused requests, and the numbers of the addresses with the most."""

    total: int
    addresses: Mapping[str, int]


class Refusals:
    """Counts refused requests between one report and the next. `report_forever` must be running."""

    def __init__(self, most_addresses: int = _MOST_ADDRESSES) -> None:
        self._most_addresses = most_addresses
        self._total = 0
        self._by_address: Counter[str] = Counter()
        self.by_limit: Counter[str] = Counter()
        """The number of refused requests since the start, by limit. The program names the limits."""

    def count(self, address: str, limit: str) -> None:
        """Count a refusal of this address by a limit; with too many addresses, only in the total."""
        self._total += 1
        self.by_limit[limit] += 1
        if address in self._by_address or len(self._by_address) < self._most_addresses:
            self._by_address[address] += 1

    def take(self) -> RefusalReport | None:
        """The counts since the last time; None if there are none."""
        if not self._total:
            return None
        report = RefusalReport(self._total, dict(self._by_address.most_common(_NAMED_ADDRESSES)))
        self._total = 0
        self._by_address.clear()
        return report

    async def report_forever(self) -> None:
        """Write one line a minute to the log, if there was anything, and one at the end."""
        try:
            while True:
                await asyncio.sleep(_REPORT_SECONDS)
                self._report()
        finally:
            self._report()

    def _report(self) -> None:
        report = self.take()
        if report is not None:
            named = sum(report.addresses.values())
            log.warning(
                "requests_refused",
                status=429,
                requests=report.total,
                addresses=dict(report.addresses),
                other_addresses=report.total - named,
                within_seconds=_REPORT_SECONDS,
            )
