"""Sign-in messages (EIP-4361), and the times (RFC 3339) and URIs (RFC 3986) in them."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

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
from tests.support.rows import each_row

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
_LONG = 200_000


def with_line(number: int, line: str) -> str:
    """The message that has everything, with another line at this place, counted from 1."""
    return "\n".join([*LINES[: number - 1], line, *LINES[number:]])


def without_line(number: int) -> str:
    return "\n".join(LINES[: number - 1] + LINES[number:])


def refusal(text: str) -> str:
    with pytest.raises(SignInMessageError) as caught:
        parse_sign_in_message(text)
    return str(caught.value)


def test_the_example_of_the_proposal() -> None:
    assert parse_sign_in_message(EXAMPLE) == EXAMPLE_FIELDS


@each_row(
    ("origin", "scheme", "domain"),
    [
        ("example.com:3388", None, "example.com:3388"),
        ("https://example.com", "https", "example.com"),
        ("chrome-extension://abc", "chrome-extension", "abc"),
        ("127.0.0.1:8080", None, "127.0.0.1:8080"),
        ("[::1]:80", None, "[::1]:80"),
        ("localhost", None, "localhost"),
    ],
)
def test_the_origin_may_have_a_scheme_and_a_port(origin: str, scheme: str | None, domain: str) -> None:
    message = parse_sign_in_message(EXAMPLE.replace("example.com", origin, 1))

    assert message == replace(EXAMPLE_FIELDS, scheme=scheme, domain=domain)


def test_a_message_with_every_line() -> None:
    assert parse_sign_in_message(EVERYTHING) == SignInMessage(
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


def test_without_a_statement_two_empty_lines_remain() -> None:
    message = parse_sign_in_message(BARE)

    assert message.statement is None
    assert write_sign_in_message(message) == BARE


def test_an_empty_statement_is_a_third_empty_line() -> None:
    message = parse_sign_in_message(BARE.replace("\n\n\n", "\n\n\n\n"))

    assert message == replace(parse_sign_in_message(BARE), statement="")


def test_a_statement_may_look_like_a_field() -> None:
    assert parse_sign_in_message(with_line(4, "URI: urn:x")).statement == "URI: urn:x"


def test_an_empty_request_id_and_an_empty_list_are_not_absent_lines() -> None:
    message = parse_sign_in_message(BARE + "\nRequest ID: \nResources:")

    assert message.request_id == ""
    assert message.resources == ()


@each_row("number", range(11, 14))
def test_each_optional_line_may_be_absent(number: int) -> None:
    message = parse_sign_in_message(without_line(number))

    assert [message.expires_at_ms, message.not_before_ms, message.request_id].index(None) == number - 11


@each_row(
    ("number", "line", "complaint"),
    [
        (1, "", "must be a domain"),
        (1, " wants you to sign in with your Ethereum account:", "must be a host"),
        (1, "example.com wants you to sign in with your ethereum account:", "must be a domain"),
        (1, LINES[0] + "\r", "LF, not CR LF"),
        (1, LINES[0].replace("example.com:8080", "user@example.com"), "without a user"),
        (1, LINES[0].replace("example.com:8080", "example.com/a"), "must be a host"),
        (1, LINES[0].replace("example.com:8080", "ex ample.com"), "must be a host"),
        (1, LINES[0].replace("example.com:8080", "exämple.com"), "must be a host"),
        (1, LINES[0].replace("https", "1https"), "must be a scheme"),
        (1, LINES[0].replace("https", ""), "must be a scheme"),
        (1, LINES[0].replace("https", "a://b"), "must be a scheme"),
        (2, "", "40 hexadecimal digits"),
        (2, ADDRESS[:-1], "40 hexadecimal digits"),
        (2, ADDRESS + "0", "40 hexadecimal digits"),
        (2, "0X" + ADDRESS[2:], "40 hexadecimal digits"),
        (2, ADDRESS[:-1] + "\N{ARABIC-INDIC DIGIT TWO}", "40 hexadecimal digits"),
        (2, ADDRESS.lower(), f"spelled with its checksum (EIP-55): {ADDRESS}"),
        (2, "0x" + ADDRESS[2:].upper(), f"spelled with its checksum (EIP-55): {ADDRESS}"),
        (2, ADDRESS.replace("C02", "c02"), "may be mistyped"),
        (3, "Welcome!", "must be empty, after the address"),
        (4, "Welcome\r", "must be ASCII"),
        (4, "100 %", "must be ASCII"),
        (4, 'say "hi"', "must be ASCII"),
        (4, "Grüezi", "must be ASCII"),
        (5, "Again!", "must be empty: a statement is one line"),
        (6, "uri: urn:x", "must begin with 'URI: '"),
        (6, "URI: ", "URI must be a URI"),
        (6, "URI: example.com", "URI must be a URI"),
        (6, "URI: https://example.com/a b", "URI must be a URI"),
        (7, "Version: 2", "Version must be 1"),
        (7, "Version: 1 ", "Version must be 1"),
        (8, "Chain ID: ", "Chain ID must be 1 to 32 decimal digits"),
        (8, "Chain ID: 0x1", "Chain ID must be"),
        (8, "Chain ID: -1", "Chain ID must be"),
        (8, "Chain ID: \N{ARABIC-INDIC DIGIT ONE}", "Chain ID must be"),
        (8, "Chain ID: " + "1" * 33, "Chain ID must be"),
        (8, "Chain ID: " + "1" * 8_000, "Chain ID must be"),
        (9, "Nonce: 1234567", "Nonce must be 8 to 128"),
        (9, "Nonce: 1234567-", "Nonce must be 8 to 128"),
        (9, "Nonce: 1234567é", "Nonce must be 8 to 128"),
        (9, "Nonce: " + "1" * 129, "Nonce must be 8 to 128"),
        (10, "Issued At: 2021-09-30", "Issued At must be a date and time"),
        (10, "Issued At: 2021-02-29T00:00:00Z", "Issued At must be a day of the calendar"),
        (11, "Expiration Time: never", "Expiration Time must be a date and time"),
        (12, "Not Before: 0000-01-01T00:00:00Z", "Not Before must be a day of the calendar"),
        (13, "Request ID: a b", "Request ID must consist of"),
        (13, "Request ID: a/b", "Request ID must consist of"),
        (13, "request id: a", "must not be there"),
        (14, "Resources: ", "must be 'Resources:' and nothing else"),
        (14, "Resources:- urn:a", "must be 'Resources:' and nothing else"),
        (15, "", "must be '- ' and a URI"),
        (15, "-urn:a", "must be '- ' and a URI"),
        (15, "- a", "must be '- ' and a URI"),
        (15, "- urn:a - urn:b", "must be '- ' and a URI"),
        (15, "- urn:a\r", "must be '- ' and a URI"),
    ],
)
def test_an_error_names_the_wrong_line_and_its_rule(number: int, line: str, complaint: str) -> None:
    reason = refusal(with_line(number, line))

    assert reason.startswith(f"line {number}: ")
    assert complaint in reason


@each_row("line", ["Nonce: 12345678", "Nonce: " + "a" * 128, "Chain ID: " + "9" * 32, "Chain ID: 01"])
def test_the_longest_and_shortest_values_are_taken(line: str) -> None:
    number = 8 if line.startswith("Chain") else 9

    assert parse_sign_in_message(with_line(number, line))


@each_row("number", [1, 2, 3, 5, 6, 7, 8, 9, 10, 14])
def test_no_mandatory_line_may_be_missing(number: int) -> None:
    assert refusal(without_line(number)).startswith(f"line {number}: ")


@each_row("count", range(1, 10))
def test_a_message_that_ends_too_soon_is_refused(count: int) -> None:
    assert refusal("\n".join(LINES[:count])) == f"line {count + 1}: is missing: the message ends too soon"


@each_row("number", [*range(6, 10), 11, 12, 13])
def test_lines_that_change_places_are_refused(number: int) -> None:
    swapped = [*LINES[: number - 1], LINES[number], LINES[number - 1], *LINES[number + 1 :]]

    assert refusal("\n".join(swapped)).startswith(f"line {number + (number > 10)}: ")


@each_row("text", [BARE, EVERYTHING, EVERYTHING.removesuffix("\nResources:\n- urn:a")])
def test_nothing_may_follow_the_last_line(text: str) -> None:
    assert refusal(text + "\n").startswith(f"line {text.count(chr(10)) + 2}: ")


def test_a_missing_empty_line_is_explained() -> None:
    assert "without it, both are still there" in refusal(BARE.replace("\n\n\n", "\n\n"))


@each_row(
    "wrong",
    [
        replace(EXAMPLE_FIELDS, statement="a\n\nURI: urn:x"),
        replace(EXAMPLE_FIELDS, resources=("urn:a\n- urn:b",)),
        replace(EXAMPLE_FIELDS, resources=(), nonce="12345678\nIssued At: 2021-09-30T16:25:24Z"),
        replace(EXAMPLE_FIELDS, request_id="a\nResources:\n- urn:b", resources=()),
        replace(EXAMPLE_FIELDS, domain="https://example.com"),
        replace(EXAMPLE_FIELDS, version="2"),
        replace(EXAMPLE_FIELDS, chain_id=-1),
        replace(EXAMPLE_FIELDS, address=ADDRESS.lower()),
        replace(EXAMPLE_FIELDS, issued_at_ms=10**18),
    ],
)
def test_fields_that_would_be_read_differently_are_not_written(wrong: SignInMessage) -> None:
    with pytest.raises(ValueError, match=r"line|field|years"):
        write_sign_in_message(wrong)


PLAIN = "abcXYZ019-._~!$&'()*+,;="
moments = st.integers(-62_135_596_800_000, 253_402_300_799_999)
hosts = st.text(PLAIN, min_size=1) | st.sampled_from(["[::1]", "[v1.a:b]", "%41.example"])
uris = st.from_regex(r"\A[a-z][a-z0-9+.-]*:(//[a-z.]+(:[0-9]+)?/)?[a-z:@][a-z/]*(\?[a-z/?]*)?(#[a-z]*)?\Z")
messages = st.builds(
    SignInMessage,
    scheme=st.none() | st.from_regex(r"\A[a-zA-Z][a-zA-Z0-9+.-]*\Z"),
    domain=st.builds(lambda host, port: host + port, hosts, st.from_regex(r"\A(:[0-9]*)?\Z")),
    address=st.binary(min_size=20, max_size=20).map(lambda content: checksummed("0x" + content.hex())),
    statement=st.none() | st.text(PLAIN + " :/?#[]@"),
    uri=uris,
    chain_id=st.integers(0, 10**32 - 1),
    nonce=st.from_regex(r"\A[a-zA-Z0-9]{8,128}\Z"),
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


@each_row("text", [EXAMPLE, EVERYTHING, BARE])
def test_a_message_without_one_of_its_characters_is_read_or_refused(text: str) -> None:
    for place in range(len(text)):
        with suppress(SignInMessageError):
            parse_sign_in_message(text[:place] + text[place + 1 :])


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


def utc_ms(*parts: int) -> int:
    return round(datetime(*parts, tzinfo=UTC).timestamp() * 1_000)  # type: ignore[arg-type, misc]


@each_row(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1985-04-12T23:20:50.52Z", utc_ms(1985, 4, 12, 23, 20, 50, 520_000)),
        ("1996-12-19T16:39:57-08:00", utc_ms(1996, 12, 20, 0, 39, 57)),
        ("1990-12-31T23:59:60Z", utc_ms(1991, 1, 1)),
        ("1990-12-31T15:59:60-08:00", utc_ms(1991, 1, 1)),
        ("1990-12-31T23:59:60.5Z", utc_ms(1991, 1, 1) + 500),
        ("1937-01-01T12:00:27.87+00:20", utc_ms(1937, 1, 1, 11, 40, 27, 870_000)),
        ("2021-09-30T16:25:24.125Z", utc_ms(2021, 9, 30, 16, 25, 24, 125_000)),
        ("2021-09-30t16:25:24z", utc_ms(2021, 9, 30, 16, 25, 24)),
        ("2021-09-30T16:25:24-00:00", utc_ms(2021, 9, 30, 16, 25, 24)),
        ("2021-09-30T16:25:24+23:59", utc_ms(2021, 9, 29, 16, 26, 24)),
        ("2021-09-30T16:25:24.0019999999999Z", utc_ms(2021, 9, 30, 16, 25, 24) + 1),
        (f"2021-09-30T16:25:24.{'9' * 8_000}Z", utc_ms(2021, 9, 30, 16, 25, 24) + 999),
        ("2024-02-29T00:00:00Z", utc_ms(2024, 2, 29)),
        ("0001-01-01T00:00:00Z", FIRST_MS),
        ("9999-12-31T23:59:59.999Z", LAST_MS),
        ("9999-12-31T23:59:59.999-00:00", LAST_MS),
    ],
)
def test_a_date_time_stands_for_a_moment(text: str, milliseconds: int) -> None:
    assert milliseconds_of(text) == milliseconds


@each_row(
    "text",
    [
        "",
        "2021-09-30",
        "2021-09-30T16:25:24",
        "2021-09-30 16:25:24Z",
        "2021-09-30T16:25Z",
        "2021-09-30T16:25:24.Z",
        "2021-09-30T16:25:24,5Z",
        "2021-09-30T24:00:00Z",
        "2021-09-30T16:60:00Z",
        "2021-09-30T16:25:61Z",
        "2021-09-30T16:25:24+24:00",
        "2021-09-30T16:25:24+02:60",
        "2021-09-30T16:25:24+0200",
        "2021-09-30T16:25:24Z\n",
        " 2021-09-30T16:25:24Z",
        "20210930T162524Z",
        "2021-W39-4T16:25:24Z",
        "+2021-09-30T16:25:24Z",
        "12021-09-30T16:25:24Z",
        "2021-09-30T16:25:2\N{ARABIC-INDIC DIGIT FOUR}Z",
        "Wed Oct 05 2011 16:48:00 GMT+0200 (CEST)",
    ],
)
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="RFC 3339"):
        milliseconds_of(text)


@each_row(
    "text",
    [
        "0000-01-01T00:00:00Z",
        "2021-00-10T00:00:00Z",
        "2021-13-10T00:00:00Z",
        "2021-09-31T00:00:00Z",
        "2021-09-00T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "9999-12-31T23:59:60Z",
    ],
)
def test_days_outside_of_the_calendar_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="calendar"):
        milliseconds_of(text)


@given(st.integers(FIRST_MS, LAST_MS))
def test_every_moment_is_read_as_it_was_written(milliseconds: int) -> None:
    assert milliseconds_of(rfc3339(milliseconds)) == milliseconds


@each_row("milliseconds", [FIRST_MS - 1, LAST_MS + 1, 10**30, -(10**30)])
def test_a_moment_outside_of_the_years_is_not_written(milliseconds: int) -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        rfc3339(milliseconds)


@given(
    st.text()
    | st.from_regex(
        r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})\Z"
    )
)
def test_any_text_is_a_moment_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert FIRST_MS <= milliseconds_of(text) <= LAST_MS


@each_row(
    "text",
    [
        "ftp://ftp.is.co.za/rfc/rfc1808.txt",
        "http://www.ietf.org/rfc/rfc2396.txt",
        "ldap://[2001:db8::7]/c=GB?objectClass?one",
        "mailto:John.Doe@example.com",
        "news:comp.infosystems.www.servers.unix",
        "tel:+1-816-555-1212",
        "telnet://192.0.2.16:80/",
        "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
        "https://example.org",
        "https://user:pass@example.org:8080/a/b;c=1//d?e=f/?#g/?",
        "https://example.org:/",
        "https://@example.org",
        "https://%C3%A9.example/%20",
        "file:///etc/passwd",
        "did:pkh:eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb",
        "a+b-c.1:",
        "a:/",
        "a:/b//c",
        "a:b//c",
        "a:?",
        "a:#",
        "http://[::]",
        "http://[::ffff:192.0.2.1]:1/",
        "http://[1:2:3:4:5:6:7:8]",
        "http://[1:2:3:4:5:6:192.0.2.1]",
        "http://[v1f.abc:def]/",
    ],
)
def test_uris_of_the_standard_are_accepted(text: str) -> None:
    assert is_uri(text)


@each_row(
    "text",
    [
        "",
        "example.org",
        "/path",
        "//example.org/",
        "://example.org/",
        "1a:b",
        "ä:b",
        "a_b:c",
        "https://example.org/a b",
        "https://example.org/%",
        "https://example.org/%4",
        "https://example.org/%4g",
        "https://example.org/#a#b",
        "https://example.org/\n",
        "https://example.org/ä",
        "https://example.org/<a>",
        'https://example.org/"',
        "https://example.org/a\\b",
        "https://example.org/[a]",
        "https://example.org:80a/",
        "https://a@b@c/",
        "https://[2001:db8::7/",
        "https://2001:db8::7/",
        "https://[]/",
        "https://[.]/",
        "https://[::1%25eth0]/",
        "https://[1:2:3:4:5:6:7]/",
        "https://[1:2:3:4:5:6:7:8:9]/",
        "https://[1::2::3]/",
        "https://[1:2:3:4::5:6:7:8]/",
        "https://[12345::]/",
        "https://[::192.0.2.256]/",
        "https://[::192.0.2.01]/",
        "https://[v.a]/",
        "https://[v1.]/",
        "https://[::1]a/",
        "https://example.org/\ud800",
        "https://example.org/\x00",
    ],
)
def test_near_misses_of_uris_are_refused(text: str) -> None:
    assert not is_uri(text)


@each_row(
    "text",
    ["example.org", "example.org:443", "example.org:", "localhost", "a_b", "127.0.0.1", "[::1]:80", "%41"],
)
def test_a_host_is_accepted_with_or_without_a_port(text: str) -> None:
    assert is_host_and_port(text)


@each_row(
    "text",
    [
        "",
        ":80",
        "user@example.org",
        "@example.org",
        "a/b",
        "a?b",
        "a#b",
        "a b",
        "a:b",
        "[::1",
        "[::g]",
        "a\n",
        "ä",
    ],
)
def test_malformed_hosts_and_ports_are_refused(text: str) -> None:
    assert not is_host_and_port(text)


def test_schemes_and_segments_are_judged() -> None:
    assert all(map(is_scheme, ["https", "a", "A1+-."]))
    assert not any(map(is_scheme, ["", "1a", "a:", "a/", "ä"]))
    assert all(map(is_segment, ["", "a", "a:b@c", "%2F", "-._~!$&'()*+,;="]))
    assert not any(map(is_segment, ["/", "a b", "%", "?", "#", "ä", "\n"]))


@given(st.text() | st.text(alphabet="a1:/?#[]@%.v+~!\n"))
def test_any_text_is_judged(text: str) -> None:
    assert is_uri(text) in (True, False)
    assert is_host_and_port(text) in (True, False)


@each_row("piece", ["a", "/", ":", "%41", "%", "@", "a@", "a:", "[", "?", "#", ".", "1.", "[:", "//"])
@each_row("start", ["", "a:", "a://", "a://a:", "a://[", "a://[::"])
def test_a_long_text_is_judged_in_time_that_grows_with_its_length(start: str, piece: str) -> None:
    """Time that grows with the square of the length is longer here than any test may take."""
    for end in ("\x00", "]", "%"):
        assert is_uri(start + piece * _LONG + end) in (True, False)
        assert is_host_and_port(start + piece * _LONG + end) in (True, False)
