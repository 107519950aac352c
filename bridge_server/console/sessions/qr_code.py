"""QR codes as images for pages."""

import segno

from bridge_server.kernel.errors import InvalidInputError

_MOST_CHARACTERS = 2_000
_BORDER = 4
_SCALE = 5


def qr_image(text: str) -> str:
    """The URL of an image (SVG) with the text as a QR code. Raises InvalidInputError."""
    if not 1 <= len(text) <= _MOST_CHARACTERS:
        raise InvalidInputError(f"A pairing URI has 1 to {_MOST_CHARACTERS} characters.")
    made = segno.make(text, micro=False, error="l")
    return made.svg_data_uri(scale=_SCALE, border=_BORDER, dark="#000", light="#fff")
