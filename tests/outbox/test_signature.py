import base64
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from bridge_server.outbox.sender import WebhookSigner
from tests.support.rows import each_row

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def secret_of(size: int) -> str:
    return "whsec_" + base64.b64encode(bytes(range(size))).decode()


def test_the_published_vector_is_reproduced() -> None:
    headers = WebhookSigner(SECRET).headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', 1_614_265_330_000
    )

    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_receiver_with_the_library_accepts_it_and_nothing_altered() -> None:
    headers = WebhookSigner(SECRET).headers(
        "msg_1", '{"name":"bücher"}'.encode(), time.time_ns() // 1_000_000
    )

    Webhook(SECRET).verify('{"name":"bücher"}'.encode(), headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(b'{"name":"bucher"}', headers)


def test_a_receiver_with_either_of_two_secrets_accepts_it() -> None:
    previous = secret_of(32)
    headers = WebhookSigner(SECRET, previous).headers("msg_1", b"{}", time.time_ns() // 1_000_000)

    for secret in (SECRET, previous):
        Webhook(secret).verify(b"{}", headers)
    alone = WebhookSigner(SECRET).headers("msg_1", b"{}", int(headers["webhook-timestamp"]) * 1000)
    assert headers["webhook-signature"].split()[0] == alone["webhook-signature"]


def test_a_message_has_no_signature_without_a_secret() -> None:
    assert WebhookSigner(None).headers("msg_1", b"{}", 1_999) == {
        "webhook-id": "msg_1",
        "webhook-timestamp": "1",
    }


@each_row("size", [24, 32, 64])
def test_a_secret_of_a_sound_length_is_taken(size: int) -> None:
    assert "webhook-signature" in WebhookSigner(secret_of(size)).headers("msg_1", b"{}", 0)


def test_a_secret_may_leave_out_its_padding() -> None:
    padded = secret_of(25)

    unpadded = padded.rstrip("=")

    assert unpadded != padded
    assert WebhookSigner(unpadded).headers("m", b"{}", 0) == WebhookSigner(padded).headers("m", b"{}", 0)


@each_row(
    ("secret", "complaint"),
    [
        ("", "must begin with whsec_"),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "must begin with whsec_"),
        ("whsec_", "and holds 0"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2La$aSw", "not base64"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", "not base64"),
        ("whsec_äöü", "not base64"),
        ("whsec_A", "not base64"),
        (secret_of(23), "and holds 23"),
        (secret_of(65), "and holds 65"),
    ],
)
def test_a_malformed_secret_is_named_at_once(secret: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        WebhookSigner(secret)
