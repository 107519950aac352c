"""Figures and texts as a person reads them."""

import re

from bridge_server.wallet.explaining.visible_text import visible

# Within an emoji, joiners and variation selectors are seen: as the emoji. So is the space between thousands.
_SEEN = re.compile(
    r"((?<=[\u2600-\u27bf\U0001f000-\U0001faff])[\u200d\ufe0f]{1,2}|(?<=[0-9])\u00a0(?=[0-9]{3}))"
)
_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def count_of(number: int) -> str:
    """A number with a no-break space between thousands."""
    return f"{number:,}".replace(",", "\N{NO-BREAK SPACE}")


def duration_of(milliseconds: int) -> str:
    """A duration in its two largest units, such as `1 d 2 h`."""
    left, parts = abs(milliseconds) // 1000, []
    for seconds, unit in _STEPS:
        number, left = divmod(left, seconds)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"


def moment_of(text: str | None) -> str:
    """A moment of the admin API in the words of a table, such as `2026-01-31 12:00:00`, in UTC."""
    return "" if text is None else text[:19].replace("T", " ")


def seen_lines(text: str) -> str:
    """The text with its unseen characters as `<U+202E>`, and its lines as they are."""
    return "\n".join(map(seen, text.split("\n")))


def seen(text: str) -> str:
    """The text with its unseen characters as `<U+202E>`."""
    parts = _SEEN.split(text)
    return "".join(part if number % 2 else visible(part) for number, part in enumerate(parts))
