"""VAPID key pairs: made, and read back from the setting."""

from secrets import token_bytes

import pytest

from bridge_server.push.keys import new_vapid_keys, raw_public_key, read_private_key
from tests.support.browser import Browser, base64url, from_base64url
from tests.support.rows import each_row


def test_a_new_pair_is_ready_to_paste() -> None:
    keys = new_vapid_keys(token_bytes)

    point, scalar = from_base64url(keys.public_key), from_base64url(keys.private_key)
    assert (len(keys.public_key), len(keys.private_key)) == (87, 43)
    assert (len(point), point[0], len(scalar)) == (65, 4, 32)
    assert Browser(int.from_bytes(scalar, "big")).point == point
    assert new_vapid_keys(token_bytes) != keys


def test_the_private_half_is_enough_and_padding_does_not_matter() -> None:
    keys = new_vapid_keys(token_bytes)

    for text in (keys.private_key, keys.private_key + "="):
        assert base64url(raw_public_key(read_private_key(text))) == keys.public_key


def test_the_private_key_is_not_shown() -> None:
    keys = new_vapid_keys(token_bytes)

    assert keys.private_key not in repr(keys)
    assert keys.public_key in repr(keys)


@each_row(
    ("text", "reason"),
    [
        ("", "must hold 32 bytes, and holds 0"),
        ("a+b/", "is not base64url"),
        ("abcde", "its length cannot be right"),
        (base64url(bytes(31)), "must hold 32 bytes, and holds 31"),
        (base64url(bytes(32)), "not a scalar"),
        (base64url(b"\xff" * 32), "not a scalar"),
        pytest.param(Browser().p256dh, r"holds 65 \(the public key\?\)", id="the public key"),
    ],
)
def test_malformed_private_key_is_refused_without_quoting_it(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        read_private_key(text)

    assert not text or text not in str(caught.value)
