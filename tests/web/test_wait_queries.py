"""The query of a poll: the quick reading agrees with parsing."""

import pytest
from aiohttp.test_utils import make_mocked_request

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.web.prefer import Wait, wanted_wait
from tests.support.rows import each_row


@each_row(
    ("query", "seconds"),
    [
        ("", 0),
        ("?", 0),
        ("?wait=0", 0),
        ("?wait=7", 7),
        ("?wait=0007", 7),
        ("?wait=25", 25),
        ("?wait=9999", 25),
        ("?wait=99999", 25),
        ("?wait=" + "9" * 4000, 25),
        ("?wait=7&wait=8", 7),
        ("?wait=7&other", 7),
        ("?other&wait=7", 7),
        ("?w%61it=7", 7),
        ("?wait=%37", 7),
        ("?wait=7#wait=8", 7),
        ("?WAIT=7", 0),
        ("?other=wait=7", 0),
    ],
)
def test_a_query_asks_for_a_wait(query: str, seconds: int) -> None:
    assert wanted_wait(make_mocked_request("GET", f"/session/a{query}"), 25) == Wait(seconds)


@each_row("value", ["", "-1", "+7", "7.0", " 7", "7%20", "x", "٧", "9" * 4001])
def test_a_wait_that_is_not_a_number_of_seconds_is_refused(value: str) -> None:
    with pytest.raises(InvalidInputError, match="whole seconds"):
        wanted_wait(make_mocked_request("GET", f"/session/a?wait={value}"), 25)
