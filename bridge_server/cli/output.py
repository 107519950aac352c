"""The output of commands: text for terminals and pipes, tables, sizes, times, progress, help, and `--json`.

It loads no settings, so that `version` starts at once.
"""

import io
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

import click
import orjson

from bridge_server.kernel.values import dataclass

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")

_COLUMN_GAP = "  "
_UNITS = ("kB", "MB", "GB", "TB")
_STEP = 1_000
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_UNLIMITED = 1_000
"""Characters: longer than the first sentence of any command's help."""


@dataclass(frozen=True, slots=True)
class Screen:
    """The abilities of the output. `columns` is None where lines may have any length."""

    columns: int | None = None
    has_colours: bool = False
    has_blocks: bool = False
    """Whether it shows the block characters of which QR codes are made."""

    def coloured(self, text: str, colour: str) -> str:
        """The text in this colour, where there are colours."""
        return click.style(text, fg=colour) if self.has_colours else text


def screen_of(stream: TextIO) -> Screen:
    """The stream's screen. The environment variable NO_COLOR forbids colours, unless it is empty."""
    is_unicode = (stream.encoding or "").lower().startswith("utf")
    if not stream.isatty():
        return Screen(has_blocks=is_unicode)
    is_dumb = os.environ.get("TERM") == "dumb"
    has_colours = not os.environ.get("NO_COLOR") and not is_dumb
    return Screen(shutil.get_terminal_size().columns, has_colours, is_unicode)


class Output:
    """Writes lines to standard output until nobody reads them any more."""

    def __init__(self) -> None:
        self._is_open = True
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")

    def write(self, text: str) -> None:
        """Write the text and a line end at once."""
        if not self._is_open:
            return
        try:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
        except (OSError, ValueError):  # the reader of a pipe has ended, and the server goes on
            self._is_open = False
            discard_the_rest()


def discard_the_rest() -> None:
    """Discard the text that is still buffered: at its exit the interpreter would complain."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return


def print_result(fields: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """Print the fields as JSON if `--json` was given, otherwise the lines."""
    for text in (orjson.dumps(fields),) if as_json else lines:
        click.echo(text)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], when_empty: str) -> list[str]:
    """The lines of a table with a header; the line `when_empty` if there are no rows."""
    lines = [header, *rows]
    return columns(lines) if len(lines) > 1 else [when_empty]


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """The rows as lines with aligned columns. Columns whose numbers are in `right` are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        _COLUMN_GAP.join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def size_text(size_bytes: float) -> str:
    """A size in the unit that keeps it short, such as 15.5 MB."""
    if size_bytes < _STEP:
        return f"{size_bytes:.0f} bytes"
    for unit in _UNITS:
        size_bytes /= _STEP
        if size_bytes < _STEP or unit == _UNITS[-1]:
            break
    return f"{size_bytes:.1f} {unit}"


def duration_text(seconds: float) -> str:
    """A duration in its largest unit, such as 6 days."""
    for unit_seconds, name in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if seconds >= unit_seconds:
            count = int(seconds // unit_seconds)
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{seconds:.0f} s"


# Progress bars on the terminal, for long work. Without a terminal nothing is written.


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
    """A bar on a terminal, unless the number of steps is unknown. It is drawn again after `least_steps`."""
    if is_quiet or steps is None or not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield NoProgress()
        return
    with click.progressbar(
        length=steps, label=label, file=sys.stderr, item_show_func=lambda text: text or "", show_pos=True,
        update_min_steps=least_steps,
    ) as bar:  # fmt: skip
        yield bar


class Group(click.Group):
    """A group whose help shows the whole first sentence of each command's help."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands and their first sentences, wrapped at the width of the terminal."""
        with formatter.section("Commands"):
            self.write_commands(ctx, formatter, self.list_commands(ctx))

    def write_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter, names: Iterable[str], width: int = 0
    ) -> None:
        """Write the commands of these names in two columns, of which the first has at least this width."""
        named = ((name.ljust(width), self.get_command(ctx, name)) for name in names)
        formatter.write_dl([(name, each.get_short_help_str(_UNLIMITED)) for name, each in named if each])
