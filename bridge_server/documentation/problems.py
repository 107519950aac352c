"""The pages about problems: the meaning of each code, its cause and its cure."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).parent / "problems.toml"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem by its code, with the HTTP status that it has."""

    code: str
    group: str
    status: int
    title: str
    meaning: str
    cause: str
    cure: str


def every_problem() -> Mapping[str, Problem]:
    """All problems by code, in the order of the pages."""
    written = tomllib.loads(_FILE.read_text("utf-8"))
    return {code: Problem(code=code, **fields) for code, fields in written.items()}
