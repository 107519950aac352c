"""Rewriting a room's statement where PostgreSQL spells a part of it otherwise.

The result is written as the rooms write: with `?` and `CROSS JOIN`, which the driver translates.
"""

from collections.abc import Mapping

_LIST = "json_each("


def numbers(statement: str) -> str:
    """The statement, whose JSON arrays hold whole numbers."""
    return with_parts(statement, {_LIST: "json_numbers("})


def texts(statement: str) -> str:
    """The statement, whose JSON arrays hold texts."""
    return with_parts(statement, {_LIST: "json_texts("})


def with_parts(statement: str, parts: Mapping[str, str]) -> str:
    """The statement with each of these parts replaced. Raises ValueError for a part that it does not have."""
    for part, replacement in parts.items():
        if part not in statement:
            raise ValueError(f"the statement has no {part!r}: {statement}")
        statement = statement.replace(part, replacement)
    return statement
