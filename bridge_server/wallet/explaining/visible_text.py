"""Texts from outside, for a person's eyes: nothing in them can hide, or change how the rest looks."""

import re
from unicodedata import east_asian_width

_CONTINUED = "… "
_SHORTEST = 8  # of a line that is broken after a space

# Characters that Unicode calls printable but that leave no mark: fillers, joiners, variation selectors and
# blanks.
# Everything else that is unseen (controls, terminal escapes, marks of direction, zero-width characters) is
# not printable.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)


def visible(text: str) -> str:
    """The text on one line, with its unseen characters as `<U+202E>`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_character, text))


def folded(text: str, columns: int) -> list[str]:
    """A text that is visible in lines as narrow as that, broken after a space where there is one.

    A terminal that had to break them itself would begin with the rest where only labels begin.
    """
    lines, start, mark = [], 0, ""
    while (end := _end_of_line(text, start, columns - len(mark))) < len(text):
        cut = text.rfind(" ", start + _SHORTEST, end) + 1 or end
        lines.append(mark + text[start:cut])
        start, mark = cut, _CONTINUED
    return [*lines, mark + text[start:]]


def _end_of_line(text: str, start: int, columns: int) -> int:
    """The end of the part that fits; characters of East Asia take two columns."""
    for position in range(start, min(len(text), start + columns + 1)):
        columns -= 2 if east_asian_width(text[position]) in "WF" else 1
        if columns < 0:
            return position
    return len(text)


def _visible_character(character: str) -> str:
    if character.isprintable() and _BLANK.match(character) is None:
        return character
    return f"<U+{ord(character):04X}>"
