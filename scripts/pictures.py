"""Draws docs/pictures/*.svg, each from the TOML file of its name; with `--check` it only compares.

Kinds of pictures: `sequence` (parties, and messages between them in time), `floors` (rows of boxes, where
each row stands on the next), `flow` (steps from top to bottom, each with exits at its side). Colours follow
the scheme of the reader.
"""

import argparse
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
_WIDTH = 860
_MARGIN = 24
_LINE = 17
_TOP = 60
_LETTER = 6.7
"""The width of a letter at 13 px, more or less: lines are broken by it."""

_INK, _PAPER, _BOX, _EDGE, _QUIET = "#1f2328", "#ffffff", "#eef3fb", "#4a6fa5", "#59636e"
_STYLE = """
  text { font: 13px system-ui, sans-serif }
  .head { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } .box { fill: #1b2735 } .box, .line { stroke: #7ea6dd }
    text { fill: #e6edf3 } .quiet { fill: #a9b4c0 } .tip { fill: #7ea6dd }
  }
"""

Part = Mapping[str, Any]


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    """One line of text."""
    colour = _QUIET if "quiet" in kind else _INK
    weight = ' font-weight="600"' if "head" in kind else ""
    style = f'class="{kind}" ' if kind else ""
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
    return f'<text {style}{place} fill="{colour}"{weight}>{escape(words, quote=False)}</text>'


def box(x: float, y: float, width: float, height: float) -> str:
    """A box with round corners."""
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect class="box" {place} rx="7" fill="{_BOX}" stroke="{_EDGE}"/>'


def line(x1: float, y1: float, x2: float, y2: float, more: str = "") -> str:
    """A line, with attributes such as a tip."""
    place = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
    return f'<line class="line" {place} stroke="{_EDGE}"{more}/>'


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """A line with a tip at its end."""
    return line(x1, y1, x2, y2, ' marker-end="url(#tip)"')


def broken(words: str, width: float) -> list[str]:
    """The words in lines that are not wider than so many pixels."""
    lines: list[str] = []
    for word in words.split():
        if lines and (len(lines[-1]) + 1 + len(word)) * _LETTER <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def paragraph(x: float, y: float, words: Sequence[str], kind: str = "", anchor: str = "middle") -> str:
    """Lines of text, the first at this height."""
    return "\n".join(text(x, y + number * _LINE, each, kind, anchor) for number, each in enumerate(words))


def sequence(picture: Part) -> Iterator[tuple[str, float]]:
    """Parties side by side, and their messages from top to bottom."""
    parties = picture["parties"]
    gap = (_WIDTH - 2 * _MARGIN) / len(parties)
    place = {name: _MARGIN + gap * (number + 0.5) for number, name in enumerate(parties)}
    drawn = [_party(place[name], name) for name in parties]
    bottom = _TOP + 52.0
    for step in picture["step"]:
        drawn_step, bottom = _step(step, place, gap, bottom)
        drawn.append(drawn_step)
    lives = [line(x, _TOP + 34, x, bottom, ' stroke-dasharray="2 4"') for x in place.values()]
    yield "\n".join([*lives, *drawn]), bottom


def _party(x: float, name: str) -> str:
    return f"{box(x - 80, _TOP, 160, 34)}\n{text(x, _TOP + 22, name, 'head')}"


def _step(step: Part, place: Mapping[str, float], gap: float, y: float) -> tuple[str, float]:
    if "note" in step:
        words = broken(step["note"], gap - 40)
        height = len(words) * _LINE + 12
        x = place[step["over"]]
        drawn = box(x - gap / 2 + 12, y, gap - 24, height)
        return f"{drawn}\n{paragraph(x, y + 18, words, 'quiet')}", y + height + 14
    start, end = place[step["from"]], place[step["to"]]
    words = broken(step["text"], abs(end - start) - 16)
    y += _LINE * len(words)
    said = paragraph((start + end) / 2, y - 6 - _LINE * (len(words) - 1), words)
    return f"{arrow(start, y, end, y)}\n{said}", y + 16


def floors(picture: Part) -> Iterator[tuple[str, float]]:
    """Rows of boxes; each row stands on the next."""
    y = float(_TOP)
    for floor in picture["floor"]:
        boxes = floor["boxes"]
        width = (_WIDTH - 2 * _MARGIN - 10 * (len(boxes) - 1)) / len(boxes)
        said = [broken(each["text"], width - 16) for each in boxes]
        height = 34 + _LINE * max(map(len, said))
        for number, (each, words) in enumerate(zip(boxes, said, strict=True)):
            x = _MARGIN + number * (width + 10)
            middle = x + width / 2
            yield box(x, y, width, height), y
            yield text(middle, y + 22, each["name"], "head"), y
            yield paragraph(middle, y + 22 + _LINE, words, "quiet"), y
        y += height
        if under := floor.get("under"):
            yield f"{arrow(_WIDTH / 2, y + 2, _WIDTH / 2, y + 32)}\n{_beside(under, y + 21)}", y
            y += 36
        else:
            y += 10
    yield "", y


def _beside(words: str, y: float) -> str:
    return text(_WIDTH / 2 + 14, y, words, "quiet", "start")


def flow(picture: Part) -> Iterator[tuple[str, float]]:
    """Steps from top to bottom; at the side of a step what ends there."""
    y = float(_TOP)
    steps = picture["step"]
    left, width = _MARGIN, 440
    side = left + width + 70
    for step in steps:
        words = broken(step["text"], width - 24)
        exits = broken(step.get("exit", ""), _WIDTH - side - _MARGIN - 20)
        height = 34 + _LINE * max(len(words), len(exits) - 1, 1)
        yield box(left, y, width, height), y
        yield text(left + width / 2, y + 22, step["name"], "head"), y
        yield paragraph(left + width / 2, y + 22 + _LINE, words, "quiet"), y
        if exits:
            middle = y + height / 2
            yield arrow(left + width, middle, side - 2, middle), y
            yield box(side, y, _WIDTH - side - _MARGIN, height), y
            first = middle + 5 - _LINE * (len(exits) - 1) / 2
            yield paragraph((side + _WIDTH - _MARGIN) / 2, first, exits), y
        y += height
        if step is not steps[-1]:
            yield arrow(left + width / 2, y, left + width / 2, y + 22), y
            y += 26
    yield "", y


KINDS: dict[str, Callable[[Part], Iterator[tuple[str, float]]]] = {
    "sequence": sequence,
    "floors": floors,
    "flow": flow,
}


def drawing(picture: Part) -> str:
    """The whole picture as SVG."""
    parts = list(KINDS[picture["kind"]](picture))
    height = parts[-1][1] + _MARGIN
    body = "\n".join(drawn for drawn, _ in parts if drawn)
    title = escape(picture["title"], quote=False)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" role="img"'
    font = 'font-family="system-ui, sans-serif" font-size="13"'
    tip = f'<path class="tip" d="M0 0 10 5 0 10z" fill="{_EDGE}"/>'
    size = 'refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto"'
    marker = f'<marker id="tip" viewBox="0 0 10 10" {size}>'
    return "\n".join(
        [
            f'{head} width="{_WIDTH}" height="{height:g}" {font}>',
            f"<title>{title}</title>",
            f"<desc>{escape(picture['description'], quote=False)}</desc>",
            f"<style>{_STYLE}</style>",
            f"<defs>{marker}{tip}</marker></defs>",
            f'<rect class="paper" width="{_WIDTH}" height="{height:g}" fill="{_PAPER}"/>',
            text(_WIDTH / 2, 34, picture["title"], "head"),
            body,
            "</svg>\n",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    is_check = parser.parse_args().check
    old = []
    for source in sorted(FOLDER.glob("*.toml")):
        target, made = source.with_suffix(".svg"), drawing(tomllib.loads(source.read_text("utf-8")))
        if not is_check:
            target.write_text(made, "utf-8")
        elif not target.exists() or target.read_text("utf-8") != made:
            old.append(target.name)
    if old:
        sys.exit(f"not what the texts of docs/pictures say: {', '.join(old)}. `scripts/pictures` draws them")


if __name__ == "__main__":
    main()
