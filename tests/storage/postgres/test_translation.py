"""The shared statements as PostgreSQL takes them, and texts with U+0000."""

import re

from hypothesis import given
from hypothesis import strategies as st

from bridge_server.storage.postgres.statements import (
    MARK,
    Text,
    Texts,
    decoded,
    encoded,
    escaped,
    translated,
    unescaped,
)
from tests.support.rows import each_row

TEXTS = st.text(st.sampled_from(["\0", MARK, "0", "1", "a", "é", "🎉"]) | st.characters(codec="utf-8"))


@each_row(
    ("sql", "expected"),
    [
        ("SELECT ? + ?", "SELECT $1 + $2"),
        ("SELECT ?2, ?1, ?2", "SELECT $2, $1, $2"),
        ("SELECT ?3, ?", "SELECT $3, $4"),
        ("SELECT '?', \"?\", ? -- ?\n, ? /* ? */", "SELECT '?', \"?\", $1 -- ?\n, $2 /* ? */"),
        ("SELECT 'it''s ?', ?", "SELECT 'it''s ?', $1"),
        ("FROM a CROSS JOIN b ON b.x = a.x", "FROM a JOIN b ON b.x = a.x"),
        ("FROM a cross  join b ON 1 CROSS JOIN c ON 2", "FROM a JOIN b ON 1 JOIN c ON 2"),
        (
            "FROM a CROSS JOIN (SELECT 1 FROM c WHERE 2) AS b ON 1",
            "FROM a JOIN (SELECT 1 FROM c WHERE 2) AS b ON 1",
        ),
        ("FROM a CROSS JOIN b WHERE 1", "FROM a CROSS JOIN b WHERE 1"),
        ("FROM a CROSS JOIN b JOIN c ON 1", "FROM a CROSS JOIN b JOIN c ON 1"),
        (
            "(SELECT 1 FROM a CROSS JOIN b) AS x JOIN c ON 1",
            "(SELECT 1 FROM a CROSS JOIN b) AS x JOIN c ON 1",
        ),
        ("SELECT 'CROSS JOIN b ON'", "SELECT 'CROSS JOIN b ON'"),
    ],
)
def test_a_statement_is_translated(sql: str, expected: str) -> None:
    assert translated(sql) == expected


PIECES = st.sampled_from(
    ["'?'", "'a''?b'", '"?"', "-- ?\n", "/* ?1 */", "?", "?3", " , ", "a", "\n", "CROSS JOIN b "]
)


@given(st.lists(PIECES))
def test_only_parameters_outside_of_quotes_are_numbered(pieces: list[str]) -> None:
    found = translated(" ".join(pieces))

    kept = [piece for piece in pieces if "?" in piece and piece not in ("?", "?3")]
    bare = found
    for piece in kept:
        assert piece in found
        bare = bare.replace(piece, "", 1)
    assert "?" not in bare
    assert len(re.findall(r"\$\d+", bare)) == sum(piece in ("?", "?3") for piece in pieces)


@given(TEXTS)
def test_every_text_comes_back(text: str) -> None:
    assert "\0" not in escaped(text)
    assert unescaped(escaped(text)) == text
    assert decoded(tuple(encoded((text, 1, None, b"\0")))) == (text, 1, None, b"\0")


@given(TEXTS, TEXTS)
def test_different_texts_stay_different(one: str, other: str) -> None:
    assert (escaped(one) == escaped(other)) == (one == other)


def test_usual_parameters_and_rows_are_passed_on_as_they_are() -> None:
    values = ("text", 1, None, b"\0")

    assert encoded(values) is values
    assert decoded(values) is values


def test_an_override_takes_the_place_of_a_statement() -> None:
    texts = Texts({"SELECT json(?)": "SELECT other(?)"})

    assert texts.of("SELECT json(?)").sql == "SELECT other($1)"
    assert texts.of("SELECT json(?) ").sql == "SELECT json($1)"


@each_row(
    ("sql", "has_rows", "expected"),
    [
        (
            "SELECT a FROM t WHERE b = ?;",
            True,
            "SELECT $2::int4, q.* FROM (SELECT a FROM t WHERE b = $1\n) AS q",
        ),
        (
            "UPDATE t SET a = ? RETURNING a",
            True,
            "WITH w AS (UPDATE t SET a = $1 RETURNING a\n) SELECT $2::int4, w.* FROM w",
        ),
        (
            "DELETE FROM t WHERE a = ?",
            False,
            "WITH w AS (DELETE FROM t WHERE a = $1\nRETURNING 1) SELECT $2::int4, count(*) FROM w",
        ),
    ],
)
def test_the_form_for_many_executions_says_whose_row_it_is(sql: str, has_rows: bool, expected: str) -> None:
    text = Texts({}).of(sql)

    assert text.is_grouped
    assert text.of_many(1, has_rows) == expected


@each_row(
    ("sql", "may_change", "is_grouped"),
    [
        ("SELECT 1", False, True),
        ("\n-- a comment\nSELECT 1", False, True),
        ("/* so */ update t SET a = 1", True, True),
        ("WITH x AS (SELECT 1) DELETE FROM t", True, False),
        ("WITH x AS (SELECT 1) SELECT * FROM x", False, False),
    ],
)
def test_the_kind_of_a_statement(sql: str, may_change: bool, is_grouped: bool) -> None:
    text = Text(sql)

    assert (text.may_change, text.is_grouped) == (may_change, is_grouped)
