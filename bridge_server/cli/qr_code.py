"""A QR code of block characters, two squares in each."""

from io import StringIO

import segno

_WHITE_ON_BLACK, _AS_BEFORE = "\x1b[97;40m", "\x1b[0m"
_BORDER = 2


def qr_code(text: str, *, has_colours: bool) -> list[str]:
    """The lines of the code. With colours it is dark on light on every terminal, as cameras expect it."""
    drawn = StringIO()
    segno.make(text, micro=False, error="l").terminal(drawn, border=_BORDER, compact=True)
    lines = drawn.getvalue().splitlines()
    return [f"{_WHITE_ON_BLACK}{line}{_AS_BEFORE}" for line in lines] if has_colours else lines
