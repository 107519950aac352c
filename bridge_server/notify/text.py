"""Plain text of a notification: one line without control characters, of limited length."""

import re

# CR, LF, LINE SEPARATOR and PARAGRAPH SEPARATOR; and the characters of the Unicode category Cc.
_LINE_BREAKS = re.compile("[\r\n\u2028\u2029]+")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def plain_text(text: str, most_characters: int) -> str:
    """Replace each run of line breaks and each tab by one space, and strip spaces at the ends.

    Raises ValueError unless the result has 1 to `most_characters` code points without control characters.
    """
    plain = one_line(text)
    control = _CONTROL.search(plain)
    if control is not None:
        raise ValueError(f"must not contain control characters, such as U+{ord(control[0]):04X}")
    if not 1 <= len(plain) <= most_characters:
        raise ValueError(f"must have 1 to {most_characters} characters, and has {len(plain)}")
    return plain


def one_line(text: str) -> str:
    """The text in one line, with its spaces as they count."""
    return _LINE_BREAKS.sub(" ", text).replace("\t", " ").strip(" ")
