"""Texts for a person: every character that leaves no mark is spelled out, and no line is too wide."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from bridge_server.wallet.visible_text import folded, visible
from tests.support.rows import each_row


@each_row("text", ["", "plain", "Grüße", "日本語", "emoji 🎉", "a\u0301", "<U+0041>", "{}[]\\"])
def test_visible_characters_stay_unchanged(text: str) -> None:
    assert visible(text) == text


@each_row(
    ("text", "shown"),
    [
        ("\x1b[2J", "<U+001B>[2J"),
        ("\x9b2J", "<U+009B>2J"),
        ("a\x00b\x07\x08", "a<U+0000>b<U+0007><U+0008>"),
        ("a\tb\r\n", "a<U+0009>b<U+000D><U+000A>"),
        ("\u202egnp.exe\u202c", "<U+202E>gnp.exe<U+202C>"),
        ("\u2066\u2069\u200e\u200f\u061c", "<U+2066><U+2069><U+200E><U+200F><U+061C>"),
        ("zero\u200bwidth\u200d\u2060\ufeff", "zero<U+200B>width<U+200D><U+2060><U+FEFF>"),
        ("\u2028\u2029\x85\xa0\xad", "<U+2028><U+2029><U+0085><U+00A0><U+00AD>"),
        ("\u3164\u2800\u115f\uffa0\u034f\ufe0f", "<U+3164><U+2800><U+115F><U+FFA0><U+034F><U+FE0F>"),
        ("\U000e0041\U000e0101", "<U+E0041><U+E0101>"),
        ("\U00016fe4\U0001d159\U00013441", "<U+16FE4><U+1D159><U+13441>"),
        ("\ud800\ue000\U0010ffff", "<U+D800><U+E000><U+10FFFF>"),
    ],
)
def test_invisible_characters_are_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_no_invisible_character_is_left(text: str) -> None:
    shown = visible(text)

    assert all(character == " " or unicodedata.category(character)[0] not in "CZ" for character in shown)


@given(st.text(max_size=300).map(visible), st.integers(20, 80))
def test_folding_loses_nothing_and_keeps_to_the_width(text: str, columns: int) -> None:
    first, *others = folded(text, columns)

    assert first + "".join(line.removeprefix("… ") for line in others) == text
    for line in (first, *others):
        assert (
            sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line) <= columns
        )


def test_lines_break_after_a_space_where_there_is_one() -> None:
    assert folded("one two three four five six", 20) == ["one two three four ", "… five six"]
    assert folded("x" * 45, 20) == ["x" * 20, "… " + "x" * 18, "… " + "x" * 7]
    assert folded("漢" * 15, 20) == ["漢" * 10, "… " + "漢" * 5]
