"""Inputs that nobody asked for: strategies for bodies, paths, queries and headers."""

import json
import string
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

_FIELDS = ["encryptionPayload", "dappName", "push", "type", "token", "webhook", "topic", "", "a/b", "x"]
_FIELDS += ["bridge", "peerName", "language"]
_FIELDS += ["notification_id", "notification", "title", "body", "url", "accounts"]
_VISIBLE = "".join(chr(code) for code in range(0x21, 0x7F))
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)

scalars: SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    _TEXT,
    st.sampled_from(["https://example.org/hook", "http://", "ftp://a", "x" * 300, "\u0000", "😀"]),
)
values: SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(_TEXT, st.sampled_from(_FIELDS)), inner, max_size=5),
    ),
    max_leaves=20,
)
objects = st.dictionaries(st.sampled_from(_FIELDS), values, max_size=7)
payloads = st.one_of(_TEXT, st.dictionaries(_TEXT, values, max_size=4))


@st.composite
def spelled(draw: st.DrawFn, strategy: SearchStrategy[Any]) -> str:
    """JSON text of a value of the strategy, in one of many spellings."""
    return json.dumps(
        draw(strategy),
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, None, 0, 1, "\t"])),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\r\n", "\t: ")])),
    )


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The JSON of an object with a piece cut out, put in, or twice there."""
    text = draw(spelled(objects)).encode()
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 8)))
    piece = draw(st.one_of(st.binary(max_size=6), st.just(text[start:end] * 2), _syntax))
    return text[:start] + piece + text[end:]


_syntax = st.sampled_from(
    [b"NaN", b"\\ud800", b"[" * 70, b"{", b"}", b'"', b",", b":", b"1e999", b"\xef\xbb\xbf"]
)
bodies: SearchStrategy[bytes] = st.one_of(
    st.just(b""),
    st.binary(max_size=200),
    spelled(values).map(str.encode),
    spelled(objects).map(str.encode),
    damaged(),
)

_escape = st.integers(0, 255).map(lambda byte: f"%{byte:02X}")
_segment = st.one_of(
    st.sampled_from(["session", "call", "calls", "new", "call-status", "hello", "..", "metrics", "{id}"]),
    st.sampled_from(["v1", "notify", "subscribers", "mark-all-as-read"]),
    st.lists(st.one_of(_escape, st.sampled_from(sorted(set(_VISIBLE) - set("?#")))), max_size=6).map("".join),
)
odd_paths: SearchStrategy[str] = st.lists(_segment, max_size=5).map(lambda parts: "/" + "/".join(parts))
_number = st.sampled_from(["0", "00", "-1", "x", "", "1e1", "%00", "99999999999999999999 "])
queries: SearchStrategy[str] = st.one_of(
    st.just(""),
    _number.map(lambda number: f"?wait={number.strip()}"),
    st.lists(st.one_of(_escape, st.sampled_from(sorted(_VISIBLE))), max_size=8).map(
        lambda p: "?" + "".join(p)
    ),
)

_header_value = st.one_of(
    st.binary(max_size=40).map(lambda raw: bytes(b for b in raw if b >= 0x20 and b != 0x7F)),
    st.text(string.printable[:95], max_size=60).map(str.encode),
)
_usual_values: dict[str, list[bytes]] = {
    "Content-Type": [b"application/json", b"text/plain", b"a/b+json", b"multipart/form-data"],
    "Prefer": [b"wait=0", b"wait", b"respond-async", b'wait="', b"wait=-1, wait=0", b";,=wait=,;"],
    "X-Request-ID": [b"mine", b"<script>", b"x" * 200], "Origin": [b"https://dapp.example", b"null"],
    "Access-Control-Request-Method": [b"PUT", b"NONSENSE"],
    "Access-Control-Request-Headers": [b"content-type", b"<script>", b"*"],
    "Authorization": [b"Bearer x", b"Bearer", b"Basic eA=="], "Content-MD5": [b"x"],
    "Content-Encoding": [b"gzip", b"deflate", b"identity", b"nonsense"],
    "X-Forwarded-For": [b"198.51.100.1", b"::1, x", b","],
    "Accept": [b"text/html", b"*/*;q=0"], "Accept-Encoding": [b"gzip", b"*;q=0"],
    "Cookie": [b"a=b", b"=;=;\xff"], "Range": [b"bytes=0-1", b"bytes=-"],
    "If-None-Match": [b"*", b'"x"'], "If-Modified-Since": [b"Thu, 99 Foo 2026", b"x"],
}  # fmt: skip


@st.composite
def headers(draw: st.DrawFn) -> list[tuple[str, bytes]]:
    """Some header fields, known by name, with values likely and unlikely."""
    names = draw(st.lists(st.sampled_from(sorted(_usual_values)), max_size=5, unique=True))
    return [(name, draw(st.one_of(st.sampled_from(_usual_values[name]), _header_value))) for name in names]


def request(method: str, path: str, query: str, headers: list[tuple[str, bytes]], body: bytes) -> bytes:
    """A well-formed HTTP request that asks for the connection to be closed; its parts may be nonsense."""
    lines = [f"{method} {path}{query} HTTP/1.1".encode(), b"Host: x", b"Connection: close"]
    lines += [name.encode() + b": " + value for name, value in headers]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])
