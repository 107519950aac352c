"""Ids that are capabilities, shortened so that the operator can tell them apart and nobody can use them."""

_SHOWN = 8


def shortened(text: str) -> str:
    """The first 8 characters and an ellipsis."""
    return text[:_SHOWN] + "…"
