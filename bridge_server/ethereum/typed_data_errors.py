"""Faults in typed data (EIP-712), and their paths.

An error is raised where only the value is known. The containers around it add their steps to the path while
the error passes them, so that data without faults pays nothing for paths.
"""

import re
from typing import Self, TypeAlias

Step: TypeAlias = str | int
"""A member's name, or an element's place in its array."""

_SHOWN_CHARACTERS = 60
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_$:]{1,60}")


class MemberError(ValueError):
    """A member or element breaks a rule; the text begins with its path, such as `message.to[2].wallet`."""

    def __init__(self, detail: str, *path: Step) -> None:
        super().__init__(detail)
        self._detail = detail
        self._path = path

    def inside(self, step: Step) -> Self:
        """Put the step to the value in front of the path, and return this error."""
        self._path = (step, *self._path)
        return self

    def __str__(self) -> str:
        path = "".join(map(_spelled, self._path)).removeprefix(".")
        return f"{path} {self._detail}".lstrip()


def shown(value: object) -> str:
    """A value as an error shows it: always short."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = f"“{value}”" if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _spelled(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_NAME.fullmatch(step) else f"[{shown(step)}]"
