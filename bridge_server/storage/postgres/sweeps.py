"""Sweeps in PostgreSQL: statements that delete or change up to so many rows that are due."""

import re

_SWEEP = re.compile(
    r"""\s*(?P<verb>DELETE\ FROM\ (?P<deleted>\w+) | UPDATE\ (?P<updated>\w+)\ SET\ \w+\ =\ \w+)
    \s+WHERE\ (?P<also>[^()]*\ AND\ )?
    \(?[\w, ]+\)?\ IN\s+
    \(SELECT\ [\w, ]+\ FROM\ \w+\s+WHERE\ (?P<due>.+?)\s(?P<order>ORDER\ BY\ [\w, ]+\ )?LIMIT\ \?\)
    (?P<end>(?:\s+RETURNING\ [\w, ]+)?)\s*""",
    re.VERBOSE,
)


def swept(statement: str) -> str:
    """The sweep by the places of its rows: the planner, which cannot know how many, would read whole tables.

    Another process may have prolonged a row since it was looked for, so the row itself is asked whether it is
    due. Raises ValueError for a statement of another form.
    """
    found = _SWEEP.fullmatch(statement)
    if found is None:
        raise ValueError(f"the statement is no sweep: {statement}")
    table, order = found["deleted"] or found["updated"], found["order"] or ""
    also, due, limit = _numbered(found["also"] or "", found["due"], "?")
    rows = f"SELECT ctid FROM {table} WHERE {due} {order}LIMIT {limit}"  # noqa: S608 - parts of the statement
    return f"{found['verb']} WHERE {also}{due} AND ctid = ANY (ARRAY({rows})){found['end']}"


def _numbered(*parts: str) -> list[str]:
    """The parts with their parameters numbered from the first to the last."""
    count = 0

    def number(_: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"?{count}"

    return [re.sub(r"\?", number, part) for part in parts]
