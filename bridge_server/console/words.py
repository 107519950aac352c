"""Figures and texts as a person reads them."""

import re

from bridge_server.wallet.explaining.visible_text import visible

# Within an emoji, joiners and variation selectors are seen: as the emoji.
_OF_EMOJI = re.compile("(?<=[\u2600-\u27bf\U0001f000-\U0001faff])([\u200d\ufe0f]{1,2})")
_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def count_of(number: int) -> str:
    """A number with a thin space between thousands."""
    return f"{number:,}".replace(",", "\N{NO-BREAK SPACE}")


def duration_of(milliseconds: int) -> str:
    """A duration in its two largest units, such as `1 d 2 h`."""
    left, parts = abs(milliseconds) // 1000, []
    for seconds, unit in _STEPS:
        number, left = divmod(left, seconds)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"


def seen(text: str) -> str:
    """The text with its unseen characters as `<U+202E>`."""
    parts = _OF_EMOJI.split(text)
    return "".join(part if number % 2 else visible(part) for number, part in enumerate(parts))
