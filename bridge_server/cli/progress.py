"""Progress bars on the terminal, for long work. Without a terminal nothing is written."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click


class Progress(Protocol):
    """A bar, or nothing."""

    def update(self, n_steps: int, current_item: str | None = None) -> None:
        """Go on by so many steps."""


class NoProgress:
    """The progress display without a terminal, which prints nothing."""

    def update(self, n_steps: int, current_item: str | None = None) -> None:
        """Write nothing."""


@contextmanager
def progress_bar(
    label: str, steps: int | None, *, least_steps: int = 0, is_quiet: bool = False
) -> Iterator[Progress]:
    """A bar on standard error, if both streams of output are a terminal. `steps` is None if not known.

    The text `current_item` is shown behind the bar, which is drawn again after `least_steps`.
    """
    if is_quiet or not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield NoProgress()
        return
    with click.progressbar(
        length=steps, label=label, file=sys.stderr, item_show_func=lambda text: text or "", show_pos=True,
        update_min_steps=least_steps,
    ) as bar:  # fmt: skip
        yield bar
