"""Findings of the doctor."""

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from bridge_server.kernel.values import dataclass
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import LoadedSettings


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


_EXIT_CODES = {Level.OK: 0, Level.WARN: 1, Level.FAIL: 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked. `cure` says what to do; `is_fixed`, that --fix has done it."""

    level: Level
    subject: str
    text: str
    cure: str = ""
    is_fixed: bool = False

    def fields(self) -> dict[str, Any]:
        """The finding as JSON."""
        return {
            "level": self.level, "subject": self.subject, "text": self.text,
            "cure": self.cure or None, "fixed": self.is_fixed,
        }  # fmt: skip

    def row(self) -> tuple[str, str, str]:
        """The cells of its line."""
        fixed = " (fixed)" if self.is_fixed else ""
        return self.level, self.subject, (f"{self.text}: {self.cure}" if self.cure else self.text) + fixed


ok, warn, fail = partial(Finding, Level.OK), partial(Finding, Level.WARN), partial(Finding, Level.FAIL)
"""Findings: the subject is well; it works, but not as it should or not for long; it does not work."""


def exit_code(findings: Iterable[Finding]) -> int:
    """0: all is well; 1: there are warnings; 2: something is broken. What was fixed is well."""
    return max((_EXIT_CODES[each.level] for each in findings if not each.is_fixed), default=0)


# The arguments of every check of the doctor.


@dataclass(frozen=True, slots=True)
class Examination:
    """The settings with their sources, the running server's URL (None: none runs), and whether to mend."""

    loaded: LoadedSettings
    config_file: Path | None
    url: str | None
    fixes: bool
    now_ms: int

    @property
    def settings(self) -> Settings:
        """The settings that the server would have at its next start."""
        return self.loaded.settings
