"""Standard output as `dev` uses it: colours and widths on a terminal, plain whole lines elsewhere."""

import io
import os
import shutil
import sys
from dataclasses import dataclass
from typing import TextIO

import click


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
