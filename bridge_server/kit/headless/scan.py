"""Pairing URIs in pictures of QR codes, read with the libraries of the extra `scan`."""

from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from typing import Any

_BEGINNINGS = ("wc:", "ethereum:wc-")
_LIBRARIES = ("PIL", "zxingcpp")
_MOST_PIXELS = 50_000_000
"""Enough for the whole of a long page. So many are decoded in at most 250 MB, at five bytes for each."""

HOW_TO_INSTALL = (
    "reading QR codes needs the libraries zxing-cpp and pillow (the extra `scan`): install them beside this "
    "program, for instance with `python -m pip install zxing-cpp pillow`"
)


class ScanError(ValueError):
    """No pairing URI was found in the picture; the message says why."""


class NoReaderError(ScanError):
    """A library that reads QR codes or pictures is not installed."""


def uri_in_picture(content: bytes) -> str:
    """The first pairing URI in a PNG picture. Raises NoReaderError, ScanError."""
    if not all(map(find_spec, _LIBRARIES)):
        raise NoReaderError(HOW_TO_INSTALL)
    codes = import_module("zxingcpp").read_barcodes(_grey_picture(content))
    texts = [str(code.text).strip() for code in codes]
    for text in texts:
        if text.startswith(_BEGINNINGS):
            return text
    if texts:
        raise ScanError("the picture has a QR code, but not one of a pairing URI such as wc:...")
    raise ScanError("the picture has no QR code that can be read")


def _grey_picture(content: bytes) -> Any:
    """The picture as Pillow has it, with one byte for each pixel. Raises ScanError.

    Strangers may have made the picture. So Pillow is not asked to guess its format, and its size is checked
    before its pixels are decoded. What Pillow raises for a bad file is of many kinds.
    """
    try:
        picture = import_module("PIL.PngImagePlugin").PngImageFile(BytesIO(content))
    except Exception as error:
        raise ScanError(
            "the picture is no PNG that can be read: give a screenshot or another picture as PNG"
        ) from error
    width, height = picture.size
    if not 0 < width * height <= _MOST_PIXELS:
        raise ScanError(f"the picture has {width} times {height} pixels, which is none or too many")
    try:
        picture.load()
    except Exception as error:
        raise ScanError("the picture is broken off or damaged: save it again") from error
    if picture.mode == "I;16":  # 16 bits of grey, of which `convert` would cut off all above 255
        picture = picture.point(lambda value: value / 256)
    return picture.convert("L")
