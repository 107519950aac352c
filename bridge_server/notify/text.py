"""Plain text as the protocol wants it: in one line, without control characters, of bounded length."""

import re

# CR, LF, LINE SEPARATOR and PARAGRAPH SEPARATOR; and the characters of the Unicode category Cc.
_LINE_BREAKS = re.compile("[\r\n\u2028\u2029]+")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def plain_text(text: str, most_characters: int) -> str:
    """The text with each run of line breaks as one space, each tab as one, and none at the ends: 1 to
    `most_characters` code points. Raises ValueError.
    """
    plain = _LINE_BREAKS.sub(" ", text).replace("\t", " ").strip(" ")
    control = _CONTROL.search(plain)
    if control is not None:
        raise ValueError(f"must not contain control characters, such as U+{ord(control[0]):04X}")
    if not 1 <= len(plain) <= most_characters:
        raise ValueError(f"must have 1 to {most_characters} characters, and has {len(plain)}")
    return plain
