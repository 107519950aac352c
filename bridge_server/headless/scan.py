"""Pairing URIs in pictures of QR codes, read by the library of the extra `scan`."""

from importlib import import_module
from importlib.util import find_spec

from bridge_server.headless.png import PictureError, read_png

_READER = "zxingcpp"
_BEGINNINGS = ("wc:", "ethereum:wc-")

HOW_TO_INSTALL = (
    "reading QR codes needs the library zxing-cpp (the extra `scan`): install it beside this program, for "
    "instance with `python -m pip install zxing-cpp`"
)


class ScanError(ValueError):
    """No pairing URI was found in the picture; the message says why."""


class NoReaderError(ScanError):
    """The library that reads QR codes is not installed."""


def uri_in_picture(content: bytes) -> str:
    """The first pairing URI in a PNG picture. Raises NoReaderError, ScanError."""
    if find_spec(_READER) is None:
        raise NoReaderError(HOW_TO_INSTALL)
    try:
        picture = read_png(content)
    except PictureError as error:
        raise ScanError(f"{error}: give a screenshot or another picture as PNG") from error
    pixels = memoryview(picture.brightness).cast("B", shape=(picture.height, picture.width))
    texts = [str(code.text).strip() for code in import_module(_READER).read_barcodes(pixels)]
    for text in texts:
        if text.startswith(_BEGINNINGS):
            return text
    if texts:
        raise ScanError("the picture has a QR code, but not one of a pairing URI such as wc:...")
    raise ScanError("the picture has no QR code that can be read")
