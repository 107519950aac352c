"""How much to measure, with what, and where."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from load import Generator


@dataclass(frozen=True, slots=True)
class Plan:
    """The bounds of one run. Every directory made under `directory` is gone when its measurement ends."""

    generator: Generator
    directory: Path
    rounds: int
    seconds: int
    large_sessions: int
    expired_sessions: int
    living_sessions: int
    crowds: tuple[int, ...]
    probes: int
    other_projects: int

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A directory for one process."""
        with tempfile.TemporaryDirectory(prefix="bridge-bench-", dir=self.directory) as name:
            yield Path(name)
