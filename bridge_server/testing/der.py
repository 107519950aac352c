"""The part of DER (X.690) that writing a certificate needs."""

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
    """A SEQUENCE of the parts."""
    return tagged(_SEQUENCE, b"".join(parts))


def set_of_one(part: bytes) -> bytes:
    """A SET with one member."""
    return tagged(_SET, part)


def integer(value: int) -> bytes:
    """A non-negative INTEGER."""
    return tagged(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1))


def bits(content: bytes, unused: int = 0) -> bytes:
    """A BIT STRING, of which the last `unused` bits do not count."""
    return tagged(_BITS, bytes((unused,)) + content)


def octets(content: bytes) -> bytes:
    """An OCTET STRING."""
    return tagged(_OCTETS, content)


def text(content: str) -> bytes:
    """A UTF8String."""
    return tagged(_TEXT, content.encode())


def time(content: str) -> bytes:
    """A UTCTime before 2050, as YYMMDDhhmmssZ."""
    return tagged(_TIME, content.encode())


def object_id(dotted: str) -> bytes:
    """An OBJECT IDENTIFIER, such as 2.5.4.3."""
    first, second, *others = map(int, dotted.split("."))
    return tagged(_OBJECT_ID, b"".join(map(_base128, (40 * first + second, *others))))


def _base128(number: int) -> bytes:
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(0x80 | number & 0x7F)
    return bytes(reversed(digits))
