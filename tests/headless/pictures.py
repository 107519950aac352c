"""PNG pictures made in memory, of QR codes and of anything else."""

import struct
import zlib
from collections.abc import Sequence
from importlib import import_module

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, content: bytes) -> bytes:
    """A chunk with its checksum."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, depth: int, colour: int, rows: Sequence[bytes], *more: bytes) -> bytes:
    """A picture of filtered rows, each with the number of its filter in front."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    pixels = zlib.compress(b"".join(rows))
    parts = (chunk(b"IHDR", header), *more, chunk(b"IDAT", pixels), chunk(b"IEND", b""))
    return PNG_SIGNATURE + b"".join(parts)


def qr_code(text: str) -> tuple[int, int, bytes]:
    """Width, height and brightness of a QR code."""
    zxingcpp = import_module("zxingcpp")
    code = zxingcpp.create_barcode(text, zxingcpp.BarcodeFormat.QRCode)
    view = memoryview(code.to_image(scale=4, add_quiet_zones=True))
    assert view.shape is not None
    height, width = view.shape[:2]
    return width, height, bytes(view)


def qr_png(text: str, *, filter_kind: int = 0) -> bytes:
    """A screenshot of a QR code: RGB, with all rows filtered in one way."""
    width, height, pixels = qr_code(text)
    above, rows = bytes(3 * width), []
    for start in range(0, width * height, width):
        row = bytes(value for value in pixels[start : start + width] for _colour in range(3))
        rows.append(bytes([filter_kind]) + filtered(filter_kind, row, above, 3))
        above = row
    return png(width, height, 8, 2, rows)


def filtered(kind: int, row: bytes, above: bytes, distance: int) -> bytes:
    """A row as an encoder writes it (PNG, section 9)."""
    left, corner = bytes(distance) + row, bytes(distance) + above
    done = bytearray()
    for place, value in enumerate(row):
        a, b, c = left[place], above[place], corner[place]
        nearest = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
        done.append((value - (0, a, b, (a + b) // 2, nearest)[kind]) & 255)
    return bytes(done)
