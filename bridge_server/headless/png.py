"""The brightness of a PNG picture's pixels (W3C PNG, third edition), for reading QR codes in screenshots.

The extra `scan` reads codes and no files, and another library for files would be one more to install.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER = struct.Struct(">IIBBBBB")
_MOST_PIXELS = 50_000_000
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Samples of a pixel by colour type: grey, RGB, palette, grey with alpha, RGB with alpha."""
_PALETTE = 3
_FULL = 255


class PictureError(ValueError):
    """The bytes are no PNG picture that can be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One byte of brightness for each pixel, row by row."""

    width: int
    height: int
    brightness: bytes


@dataclass(frozen=True, slots=True)
class _Header:
    width: int
    height: int
    depth: int
    colour: int

    @property
    def bits_of_pixel(self) -> int:
        return self.depth * _CHANNELS[self.colour]

    @property
    def bytes_of_row(self) -> int:
        return (self.width * self.bits_of_pixel + 7) // 8


def read_png(content: bytes) -> Picture:
    """Read a PNG file that is not interlaced. Raises PictureError."""
    if not content.startswith(_SIGNATURE):
        raise PictureError("the picture is no PNG")
    try:
        return _read(dict_of_chunks(content))
    except (struct.error, zlib.error, LookupError) as error:
        raise PictureError("the picture is broken off, or no PNG that can be read") from error


def dict_of_chunks(content: bytes) -> dict[bytes, bytes]:
    """The chunks by their types; chunks of one type are joined."""
    chunks: dict[bytes, bytes] = {}
    place = len(_SIGNATURE)
    while place < len(content):
        (length,) = struct.unpack_from(">I", content, place)
        kind = content[place + 4 : place + 8]
        chunks[kind] = chunks.get(kind, b"") + content[place + 8 : place + 8 + length]
        place += length + 12
    return chunks


def _read(chunks: dict[bytes, bytes]) -> Picture:
    width, height, depth, colour, _, _, interlaced = _HEADER.unpack(chunks[b"IHDR"])
    header = _Header(width, height, depth, colour)
    if interlaced or colour not in _CHANNELS or depth not in (1, 2, 4, 8, 16):
        raise PictureError("the picture is an interlaced PNG, or of an unknown kind: save it as a plain one")
    if not 0 < width * height <= _MOST_PIXELS:
        raise PictureError(f"the picture has {width} times {height} pixels, which is none or too many")
    size = height * (header.bytes_of_row + 1)
    filtered = zlib.decompressobj().decompress(chunks[b"IDAT"], size)
    if len(filtered) < size:
        raise PictureError("the picture is broken off")
    palette = _brightness_of_colours(chunks.get(b"PLTE", b""), 3) if colour == _PALETTE else b""
    rows = (_brightness(header, row, palette) for row in _unfiltered(header, filtered))
    return Picture(width, height, b"".join(rows))


def _unfiltered(header: _Header, filtered: bytes) -> Iterator[bytes]:
    """The rows as they were before each was made easier to compress (PNG, section 9)."""
    length, distance = header.bytes_of_row, max(1, header.bits_of_pixel // 8)
    above = bytes(length)
    for start in range(0, len(filtered), length + 1):
        above = _row(filtered[start], filtered[start + 1 : start + 1 + length], above, distance)
        yield above


def _row(kind: int, row: bytes, above: bytes, distance: int) -> bytes:
    if kind in (2, 4) and not any(row):  # most rows of a screenshot repeat the one above
        return above
    match kind:
        case 0:
            return row
        case 2:
            return bytes([(value + up) & _FULL for value, up in zip(row, above, strict=True)])
        case 1 | 3 | 4:
            return _from_the_left(kind, row, above, distance)
        case _:
            raise PictureError("the picture has a row of an unknown kind")


def _from_the_left(kind: int, row: bytes, above: bytes, distance: int) -> bytes:
    """Sub, Average and Paeth, which need the pixel to the left."""
    done = bytearray(distance) + row
    upper = bytes(distance) + above
    for place in range(distance, len(done)):
        left, up = done[place - distance], upper[place]
        if kind == 1:
            predicted = left
        elif kind == 3:
            predicted = (left + up) >> 1
        else:
            predicted = _paeth(left, up, upper[place - distance])
        done[place] = (done[place] + predicted) & _FULL
    return bytes(done[distance:])


def _paeth(left: int, up: int, upper_left: int) -> int:
    away_left, away_up = abs(up - upper_left), abs(left - upper_left)
    away_corner = abs(left + up - 2 * upper_left)
    if away_left <= away_up and away_left <= away_corner:
        return left
    return up if away_up <= away_corner else upper_left


def _brightness(header: _Header, row: bytes, palette: bytes) -> bytes:
    samples = _samples(header, row)
    match header.colour:
        case 0:
            return samples
        case 3:
            return bytes([palette[sample] for sample in samples])
        case 4:
            return samples[::2]
        case _:
            return _brightness_of_colours(samples, _CHANNELS[header.colour])


def _samples(header: _Header, row: bytes) -> bytes:
    """One byte for each sample; numbers of a palette stay as they are."""
    depth = header.depth
    if depth == 8:
        return row
    if depth == 16:
        return row[::2]
    most = (1 << depth) - 1
    factor = 1 if header.colour == _PALETTE else _FULL // most
    spread = [(byte >> shift & most) * factor for byte in row for shift in range(8 - depth, -1, -depth)]
    return bytes(spread[: header.width * _CHANNELS[header.colour]])


def _brightness_of_colours(samples: bytes, step: int) -> bytes:
    """Green alone tells dark from light."""
    return samples[1::step]
