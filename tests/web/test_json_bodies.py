"""JSON from outside, strictly: what two parsers could read differently is refused, and stores nothing."""

import gzip

from tests.support.asking import ask
from tests.support.rows import each_row
from tests.support.server import RunningServer

DEEPEST = 64


def member(text: str) -> bytes:
    """A body whose payload is this text."""
    return b'{"encryptionPayload":' + text.encode("utf-8", "surrogateescape") + b"}"


def nested(depth: int, opening: str, closing: str, core: str = "") -> bytes:
    """A body nested so deep, itself included."""
    return member('{"a":' + opening * (depth - 2) + core + closing * (depth - 2) + "}")


REFUSED: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \r\n",
    "NaN": member("NaN"),
    "NaN inside": member('{"a":NaN}'),
    "Infinity": member('{"a":Infinity}'),
    "minus Infinity": member('{"a":[-Infinity]}'),
    "a leading zero": member('{"a":01}'),
    "a leading zero of a number beyond floats": member('{"a":01e400}'),
    "NaN beside a number beyond floats": member('{"a":1e400,"b":NaN}'),
    "a name twice beside a number beyond floats": member('{"a":1e400,"a":1e400}'),
    "a leading plus": member('{"a":+1}'),
    "hexadecimal": member('{"a":0x1}'),
    "an open fraction": member('{"a":1.}'),
    "a name twice": b'{"encryptionPayload":"a","encryptionPayload":"b"}',
    "a name twice with the same value": b'{"encryptionPayload":"a","encryptionPayload":"a"}',
    "a name twice, once escaped": b'{"encryptionPayload":"a","\\u0065ncryptionPayload":"a"}',
    "a name twice with spaces": b'{ "encryptionPayload" : "a" ,\n"encryptionPayload"\t:"a"}',
    "an unknown name twice": b'{"encryptionPayload":"a","x":1,"x":1}',
    "an empty name twice": b'{"encryptionPayload":"a","":1,"":1}',
    "a name twice inside": member('{"a":1,"a":2}'),
    "a name twice inside, once escaped": member('{"a":1,"\\u0061":2}'),
    "an astral name twice": member('{"😀":1,"\\ud83d\\ude00":2}'),
    "a name twice deep inside": member('{"x":[[{"y":{"a":1,"a":1}}]]}'),
    "a name twice in what is ignored": b'{"encryptionPayload":"a","x":[{"a":1,"a":1}]}',
    "a lone high surrogate": member('"\\ud800"'),
    "a lone low surrogate": member('"\\udc00"'),
    "surrogates in the wrong order": member('"\\udc00\\ud800"'),
    "a surrogate before a letter": member('"\\ud800x"'),
    "a lone surrogate in a name": member('{"\\ud800":1}'),
    "a lone surrogate in what is ignored": b'{"encryptionPayload":"a","x":"\\ud800"}',
    "a byte that is no UTF-8": member('"\udcff"'),
    "a surrogate in UTF-8": member('"\udced\udca0\udc80"'),
    "an overlong form": member('"\udcc0\udcaf"'),
    "a cut character": b'{"encryptionPayload":"\xc3',
    "a byte order mark": b"\xef\xbb\xbf" + member('"a"'),
    "UTF-16": member('"a"').decode().encode("utf-16"),
    "a control character": member('"\x00"'),
    "a tab in a string": member('"\t"'),
    "an unknown escape": member('"\\x41"'),
    "a short escape": member('"\\u12"'),
    "something after": member('"a"') + b" x",
    "a second object": member('"a"') + b"{}",
    "a NUL after": member('"a"') + b"\x00",
    "a trailing comma": b'{"encryptionPayload":"a",}',
    "a leading comma": b'{,"encryptionPayload":"a"}',
    "a comment": b'{"encryptionPayload":"a"/* */}',
    "single quotes": b"{'encryptionPayload':'a'}",
    "no quotes": b'{encryptionPayload:"a"}',
    "a space that is none of JSON's": b'{"encryptionPayload":\xc2\xa0"a"}',
    "a form feed": b"\x0c" + member('"a"'),
    "an object that is open": b'{"encryptionPayload":"a"',
    "a string that is open": b'{"encryptionPayload":"a',
    "an array": b'[{"encryptionPayload":"a"}]',
    "a string": b'"encryptionPayload"',
    "a number": b"1",
    "null": b"null",
    "true": b"true",
    "a form": b"encryptionPayload=a",
    "gzip undeclared": gzip.compress(member('"a"')),
    "arrays too deep": nested(DEEPEST + 1, "[", "]"),
    "objects too deep": nested(DEEPEST + 1, '{"a":', "}", "1"),
    "1,000 deep": nested(1_000, "[", "]"),
    "30,000 deep": nested(30_000, "[", "]"),
    "too deep among 20,000 arrays": member('{"a":[' + "[]," * 20_000 + "[" * 64 + "]" * 64 + "]}"),
    "a name twice among 20,000 objects": member('{"a":[' + "{}," * 20_000 + '{"a":1,"a":1}]}'),
    "65,000 open": b"[" * 65_000,
    "65,000 objects open": b'{"a":' * 13_000,
    "too deep in what is ignored": b'{"encryptionPayload":"a","x":' + b"[" * 64 + b"]" * 64 + b"}",
    "too deep in a name that comes twice": b'{"x":'
    + b"[" * 999
    + b"]" * 999
    + b',"x":1,"encryptionPayload":"a"}',
    "objects too deep in a name that comes twice": (
        b'{"encryptionPayload":{"x":' + b'{"a":' * 999 + b"1" + b"}" * 999 + b',"x":1}}'
    ),
}


@each_row("body", REFUSED.values(), ids=REFUSED.keys())
async def test_a_body_that_is_not_strictly_a_json_object_is_400(server: RunningServer, body: bytes) -> None:
    session_id = await server.open_session()

    answer = await ask(server, "PUT", f"/session/{session_id}", body)

    assert "errors" not in answer.problem(400)
    assert (await ask(server, "GET", f"/session/{session_id}")).status == 204


@each_row(
    "body",
    [
        nested(DEEPEST, "[", "]"),
        nested(DEEPEST, '{"a":', "}", "1"),
        b'{"encryptionPayload":"a","x":' + b"[" * 63 + b"]" * 63 + b"}",
        b'{"encryptionPayload":{},"x":' + b"[" * 63 + b"]" * 63 + b',"y":[[{}]]}',
        member('"' + "[{" * 1_000 + '"'),
        member("{" + ",".join(f'"{n}":[{{}}]' for n in range(500)) + "}"),
        b" \t\r\n" + member('"a"') + b" \t\r\n",
        member('{"a":1' + "0" * 308 + "}"),
        member('{"a":1e308,"b":-1e-400}'),
        member('{"a":1,"A":1,"\\u0001":1}'),
        b'{"encryptionPayload":"","ENCRYPTIONPAYLOAD":1,"__proto__":{},"constructor":null}',
    ],
    ids=[
        "arrays as deep as allowed",
        "objects as deep as allowed",
        "what is ignored as deep as allowed",
        "as deep as allowed with others beside",
        "brackets in a string",
        "many brackets side by side",
        "space around",
        "a number of 309 digits",
        "a large and a tiny number",
        "names that differ a little",
        "names of other languages' objects",
    ],
)
async def test_every_strict_json_object_is_taken(server: RunningServer, body: bytes) -> None:
    session_id = await server.open_session()

    answer = await ask(server, "PUT", f"/session/{session_id}", body)

    assert answer.status == 200


async def test_a_detail_says_what_was_wrong(server: RunningServer) -> None:
    session_id = await server.open_session()
    details = {
        body: (await ask(server, "PUT", f"/session/{session_id}", body)).problem(400)["detail"]
        for body in (b"", b"[]", b"1", b'{"a":1,"a":1}', REFUSED["1,000 deep"], b"{")
    }

    assert "empty" in details[b""]
    assert "an array" in details[b"[]"]
    assert "a number" in details[b"1"]
    assert "'a' twice" in details[b'{"a":1,"a":1}']
    assert "deeper than 64" in details[REFUSED["1,000 deep"]]
    assert "line 1 column 2" in details[b"{"]
