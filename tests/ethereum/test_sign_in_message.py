"""Sign-in messages (EIP-4361), and the times (RFC 3339) and URIs (RFC 3986) in them."""

import string
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.sign_in_message import (
    SignInMessage,
    SignInMessageError,
    parse_sign_in_message,
    write_sign_in_message,
)
from bridge_server.kernel.fields import is_host_and_port, is_scheme, is_segment, is_uri
from bridge_server.kernel.instants import milliseconds_of, rfc3339
from tests.ethereum.vectors import tables
from tests.support.rows import each_row

TABLES = tables("sign_in_messages.json")
ADDRESS = "0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2"
_MANY = 500_000
EXAMPLE = f"""\
example.com wants you to sign in with your Ethereum account:
{ADDRESS}

I accept the ExampleOrg Terms of Service: https://example.com/tos

URI: https://example.com/login
Version: 1
Chain ID: 1
Nonce: 32891756
Issued At: 2021-09-30T16:25:24Z
Resources:
- ipfs://bafybeiemxf5abjwjbikoz4mc3a3dla6ual3jsgpdr4cjr3oz3evfyavhwq/
- https://example.com/my-web2-claim.json"""
EXAMPLE_FIELDS = SignInMessage(
    domain="example.com",
    address=ADDRESS,
    statement="I accept the ExampleOrg Terms of Service: https://example.com/tos",
    uri="https://example.com/login",
    chain_id=1,
    nonce="32891756",
    issued_at_ms=1_633_019_124_000,
    resources=(
        "ipfs://bafybeiemxf5abjwjbikoz4mc3a3dla6ual3jsgpdr4cjr3oz3evfyavhwq/",
        "https://example.com/my-web2-claim.json",
    ),
)
EVERYTHING = f"""\
https://example.com:8080 wants you to sign in with your Ethereum account:
{ADDRESS}

Welcome!

URI: did:key:z6Mk#1
Version: 1
Chain ID: 11155111
Nonce: abcdefgh
Issued At: 2021-09-30T16:25:24.125Z
Expiration Time: 2021-09-30T18:25:25+02:00
Not Before: 2021-09-30T16:25:23Z
Request ID: a:b@c%20
Resources:
- urn:a"""
# As the siwe package of npm writes a message without a statement.
BARE = f"""\
example.com wants you to sign in with your Ethereum account:
{ADDRESS}


URI: https://example.com
Version: 1
Chain ID: 1
Nonce: 32891756
Issued At: 2021-09-30T16:25:24.000Z"""
LINES = EVERYTHING.split("\n")
FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_999


def with_line(number: int, line: str) -> str:
    """The message that has everything, with another line at this place, counted from 1."""
    return "\n".join([*LINES[: number - 1], line, *LINES[number:]])


def without_line(number: int) -> str:
    return "\n".join(LINES[: number - 1] + LINES[number:])


def refusal(text: str) -> str:
    with pytest.raises(SignInMessageError) as caught:
        parse_sign_in_message(text)
    return str(caught.value)


def test_the_example_of_the_proposal_and_other_origins() -> None:
    assert parse_sign_in_message(EXAMPLE) == EXAMPLE_FIELDS
    for origin, scheme, domain in TABLES["origins"]:
        message = parse_sign_in_message(EXAMPLE.replace("example.com", origin, 1))
        assert message == replace(EXAMPLE_FIELDS, scheme=scheme, domain=domain), origin


def test_a_message_with_every_line_and_without_an_optional_one() -> None:
    everything = SignInMessage(
        scheme="https",
        domain="example.com:8080",
        address=ADDRESS,
        statement="Welcome!",
        uri="did:key:z6Mk#1",
        chain_id=11_155_111,
        nonce="abcdefgh",
        issued_at_ms=1_633_019_124_125,
        expires_at_ms=1_633_019_125_000,
        not_before_ms=1_633_019_123_000,
        request_id="a:b@c%20",
        resources=("urn:a",),
    )
    assert parse_sign_in_message(EVERYTHING) == everything
    assert parse_sign_in_message(without_line(11)) == replace(everything, expires_at_ms=None)
    assert parse_sign_in_message(without_line(12)) == replace(everything, not_before_ms=None)
    assert parse_sign_in_message(without_line(13)) == replace(everything, request_id=None)


def test_what_is_empty_is_not_absent() -> None:
    message = parse_sign_in_message(BARE)
    assert message.statement is None
    assert write_sign_in_message(message) == BARE

    assert parse_sign_in_message(BARE.replace("\n\n\n", "\n\n\n\n")) == replace(message, statement="")
    assert "without it, both are still there" in refusal(BARE.replace("\n\n\n", "\n\n"))
    empty = parse_sign_in_message(BARE + "\nRequest ID: \nResources:")
    assert (empty.request_id, empty.resources) == ("", ())


@each_row(
    ("number", "line", "complaint"),
    [*TABLES["wrong lines"], (8, "Chain ID: " + "1" * 8_000, "Chain ID must be")],
)
def test_an_error_names_the_wrong_line_and_its_rule(number: int, line: str, complaint: str) -> None:
    reason = refusal(with_line(number, line))

    assert reason.startswith(f"line {number}: ")
    assert complaint in reason


def test_the_longest_and_shortest_values_are_taken() -> None:
    for line in ("Nonce: 12345678", "Nonce: " + "a" * 128):
        assert parse_sign_in_message(with_line(9, line))
    for line in ("Chain ID: " + "9" * 32, "Chain ID: 01"):
        assert parse_sign_in_message(with_line(8, line))
    assert parse_sign_in_message(with_line(4, "URI: urn:x")).statement == "URI: urn:x"


def test_no_line_may_be_missing_out_of_place_or_too_many() -> None:
    for number in (1, 2, 3, 5, 6, 7, 8, 9, 10, 14):
        assert refusal(without_line(number)).startswith(f"line {number}: ")
    for number in (*range(6, 10), 11, 12, 13):
        swapped = [*LINES[: number - 1], LINES[number], LINES[number - 1], *LINES[number + 1 :]]
        assert refusal("\n".join(swapped)).startswith(f"line {number + (number > 10)}: ")
    for text in (BARE, EVERYTHING, EVERYTHING.removesuffix("\nResources:\n- urn:a")):
        assert refusal(text + "\n").startswith(f"line {text.count(chr(10)) + 2}: ")


@each_row(
    "wrong",
    [
        {"statement": "a\n\nURI: urn:x"},
        {"resources": ("urn:a\n- urn:b",)},
        {"resources": (), "nonce": "12345678\nIssued At: 2021-09-30T16:25:24Z"},
        {"resources": (), "request_id": "a\nResources:\n- urn:b"},
        {"domain": "https://example.com"},
        {"version": "2"},
        {"chain_id": -1},
        {"address": ADDRESS.lower()},
        {"issued_at_ms": 10**18},
    ],
)
def test_fields_that_would_be_read_differently_are_not_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"line|field|years"):
        write_sign_in_message(replace(EXAMPLE_FIELDS, **wrong))


PLAIN = "abcXYZ019-._~!$&'()*+,;="
LOWER = string.ascii_lowercase
moments = st.integers(FIRST_MS, LAST_MS)
hosts = st.text(PLAIN, min_size=1) | st.sampled_from(["[::1]", "[v1.a:b]", "%41.example"])


def lower(others: str = "", least: int = 0) -> st.SearchStrategy[str]:
    return st.text(LOWER + others, min_size=least)


nothing = st.just("")
uris = st.builds(
    "{}{}:{}{}{}{}{}".format,  # from_regex draws each character for itself, and takes three times as long
    st.sampled_from(LOWER),
    lower("0123456789+.-"),
    nothing | st.builds("//{}{}/".format, lower(".", 1), nothing | st.integers(0).map(":{}".format)),
    st.sampled_from(LOWER + ":@"),
    lower("/"),
    nothing | lower("/?").map("?{}".format),
    nothing | lower().map("#{}".format),
)
messages = st.builds(
    SignInMessage,
    scheme=st.none() | st.from_regex(r"\A[a-zA-Z][a-zA-Z0-9+.-]*\Z"),
    domain=st.builds(lambda host, port: host + port, hosts, st.from_regex(r"\A(:[0-9]*)?\Z")),
    address=st.binary(min_size=20, max_size=20).map(lambda content: checksummed("0x" + content.hex())),
    statement=st.none() | st.text(PLAIN + " :/?#[]@"),
    uri=uris,
    chain_id=st.integers(0, 10**32 - 1),
    nonce=st.text(string.ascii_letters + string.digits, min_size=8, max_size=128),
    issued_at_ms=moments,
    expires_at_ms=st.none() | moments,
    not_before_ms=st.none() | moments,
    request_id=st.none() | st.text(PLAIN + ":@"),
    resources=st.lists(uris, max_size=4).map(tuple),
)


@given(messages)
def test_every_message_is_read_as_it_was_written(message: SignInMessage) -> None:
    assert parse_sign_in_message(write_sign_in_message(message)) == message


@given(st.sampled_from([EXAMPLE, EVERYTHING, BARE]), st.data(), st.text(max_size=3), st.integers(0, 3))
def test_a_damaged_message_is_read_or_refused(text: str, data: st.DataObject, patch: str, cut: int) -> None:
    place = data.draw(st.integers(0, len(text)))

    with suppress(SignInMessageError):
        parse_sign_in_message(text[:place] + patch + text[place + cut :])


@given(st.text() | st.lists(st.sampled_from([*LINES, "", "Resources:", "\ud800", "\x00"])).map("\n".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(SignInMessageError):
        parse_sign_in_message(text)


@each_row(
    "text",
    [
        "\n" * _MANY,
        "://" * _MANY + LINES[0],
        "[" * _MANY + LINES[0],
        with_line(4, "a " * _MANY + "%"),
        with_line(6, "URI: a://" + "a:" * _MANY + " "),
        with_line(10, "Issued At: 2021-09-30T16:25:24." + "1" * _MANY),
        with_line(13, "Request ID: " + "%41" * _MANY + "%"),
        EVERYTHING + "\n- urn:a" * (_MANY // 10) + "\n",
    ],
)
def test_a_long_text_is_refused_in_time_that_grows_with_its_length(text: str) -> None:
    """Time that grows with the square of the length is longer here than any test may take."""
    assert refusal(text)


def test_a_date_time_stands_for_a_moment_or_is_refused() -> None:
    times = dict(TABLES["times"])
    assert {text: milliseconds_of(text) for text in times} == times
    assert milliseconds_of(f"2021-09-30T16:25:24.{'9' * 8_000}Z") == 1_633_019_124_999
    for table, reason in (
        ("other spellings of times", "RFC 3339"),
        ("days outside of the calendar", "calendar"),
    ):
        for text in TABLES[table]:
            with pytest.raises(ValueError, match=reason):
                milliseconds_of(text)


@given(moments)
def test_every_moment_of_the_years_is_read_as_it_was_written_and_others_are_not_written(moment: int) -> None:
    assert milliseconds_of(rfc3339(moment)) == moment
    for outside in (FIRST_MS - 1, LAST_MS + 1, 10**30, -(10**30)):
        with pytest.raises(ValueError, match="years 1 to 9999"):
            rfc3339(outside)


@given(
    st.text()
    | st.from_regex(
        r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})\Z"
    )
)
def test_any_text_is_a_moment_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert FIRST_MS <= milliseconds_of(text) <= LAST_MS


def test_uris_hosts_schemes_and_segments_are_judged_by_the_standard() -> None:
    for judge, accepted, refused in (
        (is_uri, TABLES["URIs"], TABLES["near misses of URIs"]),
        (is_host_and_port, TABLES["hosts"], TABLES["malformed hosts"]),
        (is_scheme, ["https", "a", "A1+-."], ["", "1a", "a:", "a/", "ä"]),
        (is_segment, ["", "a", "a:b@c", "%2F", "-._~!$&'()*+,;="], ["/", "a b", "%", "?", "#", "ä", "\n"]),
    ):
        assert [text for text in (*accepted, *refused) if judge(text)] == accepted


@each_row("piece", ["a", "/", ":", "%41", "%", "@", "a@", "a:", "[", "?", "#", ".", "1.", "[:", "//"])
@each_row("start", ["", "a:", "a://", "a://a:", "a://[", "a://[::"])
def test_a_long_text_is_judged_in_time_that_grows_with_its_length(start: str, piece: str) -> None:
    """Time that grows with the square of the length is longer here than any test may take."""
    for end in ("\x00", "]", "%"):
        text = start + piece * 200_000 + end
        assert {is_uri(text), is_host_and_port(text)} <= {True, False}
