"""The texts of members and elements, as they were written."""

import pytest

from bridge_server.kernel.json_texts import DuplicateNameError, element_texts, member_texts
from tests.support.rows import each_row


def test_each_member_keeps_its_text() -> None:
    text = ' { "a" : 1e2 ,"b":{"c": [1, 2.50]},\n"\\u0063": "\\u00e9" } '

    assert member_texts(text) == {"a": "1e2", "b": '{"c": [1, 2.50]}', "c": '"\\u00e9"'}


def test_each_element_keeps_its_text() -> None:
    assert element_texts('[ 1.0, {"a":1} ,[]]') == ["1.0", '{"a":1}', "[]"]
    assert element_texts("[ ]") == []


def test_the_last_of_two_members_counts() -> None:
    assert member_texts('{"a":1,"a":2}') == {"a": "2"}


@each_row("text", ['{"a":1,"a":2}', '{"b":{"a":1,"a":2}}', '{"b":[{"a":1,"a":2}]}'])
def test_unique_names_are_demanded_however_deep(text: str) -> None:
    with pytest.raises(DuplicateNameError, match="'a'"):
        member_texts(text, are_unique=True)


@each_row(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        '{"a"',
        '{"a":',
        '{"a":1',
        "{1:2}",
        '{"a":NaN}',
        '{"a":1} {}',
        '{"a" 1}',
        "{a:1}",
    ],
)
def test_a_text_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        member_texts(text)


@each_row("text", ["", "{}", "[", "[1", "[Infinity]", "[1] 2"])
def test_a_text_that_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        element_texts(text)
