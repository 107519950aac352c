"""Just enough of DER (X.690) to write a certificate."""

_INTEGER, _BITS, _OCTETS, _OBJECT_ID, _TEXT, _TIME = 0x02, 0x03, 0x04, 0x06, 0x0C, 0x17
_SEQUENCE, _SET = 0x30, 0x31

TRUE = b"\x01\x01\xff"


def tagged(tag: int, content: bytes) -> bytes:
    """The content with its tag and its length."""
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content


def sequence(*parts: bytes) -> bytes:
    """The parts in this order."""
    return tagged(_SEQUENCE, b"".join(parts))


def set_of_one(part: bytes) -> bytes:
    """A set with one member."""
    return tagged(_SET, part)


def integer(value: int) -> bytes:
    """A number that is not negative."""
    return tagged(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1))


def bits(content: bytes, unused: int = 0) -> bytes:
    """A string of bits, the last so many of which do not count."""
    return tagged(_BITS, bytes((unused,)) + content)


def octets(content: bytes) -> bytes:
    """A string of bytes."""
    return tagged(_OCTETS, content)


def text(content: str) -> bytes:
    """A text in UTF-8."""
    return tagged(_TEXT, content.encode())


def time(content: str) -> bytes:
    """A moment of this half century, as YYMMDDhhmmssZ."""
    return tagged(_TIME, content.encode())


def object_id(dotted: str) -> bytes:
    """The name of a kind of thing, such as 2.5.4.3."""
    first, second, *others = map(int, dotted.split("."))
    return tagged(_OBJECT_ID, b"".join(map(_base128, (40 * first + second, *others))))


def _base128(number: int) -> bytes:
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(0x80 | number & 0x7F)
    return bytes(reversed(digits))
