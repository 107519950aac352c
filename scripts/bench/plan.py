"""How much to measure, and where."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Plan:
    """The bounds of one run. Every directory made under `directory` is gone when its measurement ends."""

    directory: Path
    rounds: int
    is_quick: bool
    console_seconds: int | None = None
    rows: Sequence[str] | None = None
    """The rows of `instructions` to measure; None for all."""
    beside: Path | None = None
    """Another checkout, which `start` measures in turns with this one."""

    @property
    def seconds(self) -> int:
        """How long a round of requests lasts."""
        return 1 if self.is_quick else 2

    @property
    def few_rounds(self) -> int:
        """Rounds of a measurement that starts processes anew each time."""
        return min(self.rounds, 3)

    def sized(self, quick: int, full: int) -> int:
        """How large something is made."""
        return quick if self.is_quick else full

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A directory for one process."""
        with tempfile.TemporaryDirectory(prefix="bridge-bench-", dir=self.directory) as name:
            yield Path(name)
