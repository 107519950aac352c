"""Encryption against the RFC's own example, and against another library's decryption."""

from secrets import token_bytes

import pytest
from Crypto.PublicKey import ECC
from cryptography.exceptions import InvalidTag
from hypothesis import given
from hypothesis import strategies as some

from bridge_server.push.providers.messages import LARGEST_PLAINTEXT_BYTES
from bridge_server.push.providers.webpush import SALT_BYTES, encrypt
from tests.support.browser import Browser, base64url, from_base64url

# RFC 8291, section 5 and appendix A.
RFC_PLAINTEXT = b"When I grow up, I want to be a watermelon"
RFC_AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
RFC_RECEIVER_PRIVATE = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
RFC_RECEIVER_PUBLIC = (
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
)
RFC_SENDER_PRIVATE = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
RFC_SALT = "DGv6ra1nlYgDCS1FRnbzlw"
RFC_BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml"
    "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT"
    "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)


def number(text: str) -> int:
    return int.from_bytes(from_base64url(text), "big")


def sealed(browser: Browser, plaintext: bytes, padding_bytes: int = 0) -> bytes:
    return encrypt(
        plaintext,
        ECC.import_key(browser.point, curve_name="P-256"),
        from_base64url(browser.auth),
        sender_key=ECC.generate(curve="P-256"),
        salt=token_bytes(SALT_BYTES),
        padding_bytes=padding_bytes,
    )


def test_the_example_of_the_rfc_comes_out_byte_for_byte() -> None:
    body = encrypt(
        RFC_PLAINTEXT,
        ECC.import_key(from_base64url(RFC_RECEIVER_PUBLIC), curve_name="P-256"),
        from_base64url(RFC_AUTH),
        sender_key=ECC.construct(curve="P-256", d=number(RFC_SENDER_PRIVATE)),
        salt=from_base64url(RFC_SALT),
    )

    assert base64url(body) == RFC_BODY


def test_the_decryption_of_these_tests_reads_the_example_too() -> None:
    browser = Browser(number(RFC_RECEIVER_PRIVATE), from_base64url(RFC_AUTH))

    assert browser.p256dh == RFC_RECEIVER_PUBLIC
    assert browser.decrypt(from_base64url(RFC_BODY)) == RFC_PLAINTEXT


@given(some.binary(max_size=3_900), some.integers(0, 93))
def test_a_browser_reads_what_was_sent(plaintext: bytes, padding_bytes: int) -> None:
    browser = Browser()

    body = sealed(browser, plaintext, padding_bytes)

    assert browser.decrypt(body) == plaintext
    assert len(body) == 86 + len(plaintext) + padding_bytes + 17


def test_the_largest_message_is_4096_bytes_and_no_more() -> None:
    browser = Browser()

    assert len(sealed(browser, bytes(LARGEST_PLAINTEXT_BYTES))) == 4_096
    with pytest.raises(ValueError, match="at most 3993 bytes"):
        sealed(browser, bytes(LARGEST_PLAINTEXT_BYTES + 1))
    with pytest.raises(ValueError, match="at most 3993 bytes"):
        sealed(browser, bytes(LARGEST_PLAINTEXT_BYTES), 1)


def test_another_browser_cannot_read_it() -> None:
    body = sealed(Browser(), b"secret")

    with pytest.raises(InvalidTag):
        Browser().decrypt(body)
