"""The progress and the result of a notification's walk, as the command prints them."""

from typing import Any

from bridge_server.cli.notify.walks import WantedNotification
from bridge_server.cli.operator import columns
from bridge_server.client import BridgeUnreachableError, FailedAccount, NotifyProgress

_MOST_LISTED = 100
_MOST_LINES = 10


class SendingReport:
    """Counts, and some of the accounts that were not reached, with the reason."""

    def __init__(self, wanted: WantedNotification) -> None:
        self._wanted = wanted
        self._missed: list[FailedAccount] = []
        self.progress = NotifyProgress(wanted.notification_id)

    def note(self, progress: NotifyProgress) -> None:
        """Remember accounts that a call did not reach, as long as there are few."""
        if progress.result is not None and len(self._missed) < _MOST_LISTED:
            unknown = [FailedAccount(account, "not_subscribed") for account in progress.result.not_found]
            self._missed = [*self._missed, *progress.result.failed, *unknown][:_MOST_LISTED]

    @property
    def has_failed(self) -> bool:
        """Whether somebody was not reached: anybody who was named, or a subscriber over the limit."""
        if self._wanted.to is None:
            return self.progress.rate_limited > 0
        return self.progress.sent < self.progress.accounts

    def fields(self) -> dict[str, Any]:
        """The result as JSON. Of the accounts that were not reached it lists 100."""
        done = self.progress
        return {
            "id": self._wanted.notification_id,
            "dry_run": self._wanted.is_dry_run,
            "accounts": done.accounts,
            "sent": done.sent,
            "rate_limited": done.rate_limited,
            "type_not_subscribed": done.type_not_subscribed,
            "not_subscribed": done.not_found,
            "failed": [_missed_fields(missed) for missed in self._missed],
        }

    def lines(self) -> list[str]:
        """The result in words."""
        done = self.progress
        counts = [
            ("would be sent" if self._wanted.is_dry_run else "sent", done.sent),
            ("rate limited", done.rate_limited),
            ("type not subscribed", done.type_not_subscribed),
            ("not subscribed", done.not_found),
        ]
        rows = [(label, f"{count:,}") for label, count in counts if count or label.endswith("sent")]
        identified = [] if self._wanted.is_dry_run else [("id", self._wanted.notification_id)]
        return [*columns([*identified, *rows]), *self._missed_lines()]

    def may_have_sent(self, error: Exception) -> bool:
        """Whether an error may have ended the walk after somebody was sent to."""
        return self.progress.accounts > 0 or isinstance(error, BridgeUnreachableError)

    def how_to_go_on(self) -> str:
        """The message about a walk that has ended early."""
        if self._wanted.is_dry_run:
            return ""
        total = "" if self.progress.total is None else f" of {self.progress.total:,}"
        return (
            f" after {self.progress.accounts:,}{total} accounts; the same command with "
            f"--id {self._wanted.notification_id} goes on, and nobody gets it twice"
        )

    def _missed_lines(self) -> list[str]:
        if self._wanted.to is None or not self._missed:
            return []
        shown = [_missed_line(missed) for missed in self._missed[:_MOST_LINES]]
        others = self.progress.accounts - self.progress.sent - len(shown)
        return ["", *shown, *([f"and {others:,} others"] if others else [])]


def _missed_fields(missed: FailedAccount) -> dict[str, Any]:
    fields: dict[str, Any] = {"account": missed.account, "reason": missed.reason}
    if missed.retry_after_seconds is not None:
        fields["retry_after"] = missed.retry_after_seconds
    return fields


def _missed_line(missed: FailedAccount) -> str:
    waiting = "" if missed.retry_after_seconds is None else f", again in {missed.retry_after_seconds:,} s"
    return f"{missed.account}: {missed.reason.replace('_', ' ')}{waiting}"
