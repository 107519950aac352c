"""Holds the pages of documentation to a budget of pages and words, and to plain English.

README.md and the pages of docs/ count, without docs/reference.md, which `scripts/reference` writes, and
without the decision records. The budget, and words that pages may not use with what to write instead, are in
`[tool.documentation]` of pyproject.toml. Code is not searched for these words.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_WRITTEN = _ROOT / "docs" / "reference.md"
_PAGES = [_ROOT / "README.md", *sorted(path for path in (_ROOT / "docs").glob("*.md") if path != _WRITTEN)]
_CODE = re.compile(r"^[ ]*```.*?^[ ]*```|`[^`]*`", re.MULTILINE | re.DOTALL)


def _faults(pages: int, words: int, avoided: Mapping[str, str]) -> Iterator[str]:
    texts = {path: path.read_text("utf-8") for path in _PAGES}
    if (count := len(texts) + 1) > pages:
        yield f"{count} pages with docs/reference.md, and {pages} may be"
    if (count := sum(len(text.split()) for text in texts.values())) > words:
        yield f"{count} words, and {words} may be: say it once, and shorter"
    for path, text in texts.items():
        prose = _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
        for phrase, instead in avoided.items():
            pattern = r"\s+".join(map(re.escape, phrase.split()))
            for match in re.finditer(rf"\b{pattern}\b", prose, re.IGNORECASE):
                line = prose[: match.start()].count("\n") + 1
                yield f"{path.relative_to(_ROOT)}:{line}: '{phrase}': write {instead}"


def main() -> int:
    """Print each fault; 1 if there is any."""
    table = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["documentation"]
    faults = list(_faults(table["pages"], table["words"], table["avoided"]))
    for fault in faults:
        print(f"[tool.documentation] {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
