"""Payloads as js-walletconnect-core seals and opens them; nothing else opens."""

import json
from pathlib import Path
from typing import Any

import pytest
from Crypto.Cipher import AES
from Crypto.Hash import HMAC, SHA256
from Crypto.Util.Padding import pad
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kit.client import BadPayloadError, Cipher, pairing
from tests.support.rows import each_row

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "clients_v07.json").read_text("utf-8"))
KEY = bytes(range(32))

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.parametrize("vector", VECTORS["payloads"], ids=lambda vector: str(vector["content"])[:20])
def test_payload_of_the_published_client_is_decrypted_and_encrypted_alike(
    vector: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    published = Cipher(bytes.fromhex(vector["key"]))
    iv = bytes.fromhex(vector["payload"]["iv"])
    monkeypatch.setattr(pairing, "token_bytes", lambda size: iv[:size])

    opened = published.open(vector["payload"])

    assert opened == vector["content"]
    assert published.seal(vector["content"]) == vector["payload"]


@given(json_values, st.binary(min_size=32, max_size=32))
def test_encrypted_payload_is_decrypted(content: Any, key: bytes) -> None:
    assert Cipher(key).open(Cipher(key).seal(content)) == content


@given(st.data())
def test_a_payload_with_any_digit_changed_does_not_open(data: st.DataObject) -> None:
    vector = VECTORS["payloads"][0]
    payload = dict(vector["payload"])
    name = data.draw(st.sampled_from(sorted(payload)))
    place = data.draw(st.integers(0, len(payload[name]) - 1))
    digit = data.draw(st.sampled_from("0123456789abcdef").filter(lambda digit: digit != payload[name][place]))
    payload[name] = payload[name][:place] + digit + payload[name][place + 1 :]

    with pytest.raises(BadPayloadError, match="touched on its way"):
        Cipher(bytes.fromhex(vector["key"])).open(payload)


def test_another_key_does_not_open() -> None:
    with pytest.raises(BadPayloadError, match="another key"):
        Cipher(bytes(32)).open(Cipher(KEY).seal("secret"))


def test_two_payloads_of_one_content_differ() -> None:
    first, second = Cipher(KEY).seal("same"), Cipher(KEY).seal("same")

    assert first["iv"] != second["iv"]
    assert first["data"] != second["data"]


def test_a_payload_that_is_a_string_of_json_opens() -> None:
    assert Cipher(KEY).open(json.dumps(Cipher(KEY).seal("as text"))) == "as text"


def test_hexadecimal_digits_of_either_case_open() -> None:
    payload = Cipher(KEY).seal("case")
    shouted = {**payload, "hmac": payload["hmac"].upper(), "iv": payload["iv"].upper()}

    assert Cipher(KEY).open(shouted) == "case"


@each_row(
    ("payload", "name"),
    [
        (None, "data"),
        ("not JSON", "data"),
        ([], "data"),
        ({}, "data"),
        ({"data": ""}, "data"),
        ({"data": 7}, "data"),
        ({"data": "ab" * 15}, "data"),
        ({"data": "zz" * 16}, "data"),
        ({"data": "ab " * 32}, "data"),
        ({"data": "ab" * 16}, "hmac"),
        ({"data": "ab" * 16, "hmac": "ab" * 31}, "hmac"),
        ({"data": "ab" * 16, "hmac": "ab" * 32}, "iv"),
        ({"data": "ab" * 16, "hmac": "ab" * 32, "iv": "ab" * 17}, "iv"),
    ],
)
def test_malformed_payload_is_refused_by_name(payload: object, name: str) -> None:
    with pytest.raises(BadPayloadError, match=f"see its {name}"):
        Cipher(KEY).open(payload)


@each_row("plain", [b"", b"not JSON", b"[]", b'"data"', b"{}", b'{"data":\xff}', b"7"])
def test_payload_that_is_not_json_is_refused(plain: bytes) -> None:
    padded = pad(plain, 16)

    with pytest.raises(BadPayloadError, match="something else"):
        Cipher(KEY).open(_sealed(padded))


def test_payload_with_wrong_padding_is_refused() -> None:
    with pytest.raises(BadPayloadError, match="something else"):
        Cipher(KEY).open(_sealed(b'{"data": 1}' + bytes(5)))


@each_row("size", [0, 16, 31, 33])
def test_a_key_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"32 bytes, not {size}"):
        Cipher(bytes(size))


def _sealed(padded: bytes) -> dict[str, str]:
    """A payload with a sound HMAC over whatever the blocks hold."""
    data = AES.new(KEY, AES.MODE_CBC, bytes(16)).encrypt(padded).hex()
    mac = HMAC.new(KEY, (data + "00" * 16).encode(), SHA256).hexdigest()
    return {"data": data, "hmac": mac, "iv": "00" * 16}
