"""URIs and authorities: the examples of RFC 3986 and their near misses."""

from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.fields import is_host_and_port, is_scheme, is_segment, is_uri
from tests.support.rows import each_row

_MANY = 200_000


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
        assert is_uri(start + piece * _MANY + end) in (True, False)
        assert is_host_and_port(start + piece * _MANY + end) in (True, False)
