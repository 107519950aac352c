"""The headers that identify a message and, with the secret, its sender (Standard Webhooks)."""

import base64
import binascii
from collections.abc import Callable
from datetime import UTC, datetime

from standardwebhooks import Webhook

SIGNATURE = "webhook-signature"

_KEY_SIZE = 32
_PREFIX = "whsec_"
_KEY_BYTES = range(24, 65)


class WebhookSigner:
    """Makes the webhook headers; signs when there is a secret, with the `previous` one too if there is one.

    A secret is `whsec_` and base64 of 24 to 64 bytes. Raises ValueError for any other text: the library
    would skip over characters that are not base64 and sign with the rest.
    """

    def __init__(self, secret: str | None, previous: str | None = None) -> None:
        self._webhooks = [Webhook(_key(each)) for each in (secret, previous) if each is not None]

    def headers(self, message_id: str, body: bytes, now_ms: int) -> dict[str, str]:
        """The headers of an attempt that is made at `now_ms`."""
        moment = datetime.fromtimestamp(now_ms // 1_000, UTC)
        headers = {"webhook-id": message_id, "webhook-timestamp": str(now_ms // 1_000)}
        if self._webhooks:
            text = body.decode()
            signatures = [webhook.sign(message_id, moment, text) for webhook in self._webhooks]
            headers[SIGNATURE] = " ".join(signatures)
        return headers


def new_signing_secret(random_bytes: Callable[[int], bytes]) -> str:
    """A secret for one receiver, in the spelling that a `WebhookSigner` takes."""
    return _PREFIX + base64.b64encode(random_bytes(_KEY_SIZE)).decode()


def _key(secret: str) -> bytes:
    encoded = secret.removeprefix(_PREFIX)
    if encoded == secret:
        raise ValueError(f"the webhook signing secret must begin with {_PREFIX}")
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"the webhook signing secret is not base64 after {_PREFIX}") from None
    if len(key) not in _KEY_BYTES:
        raise ValueError(f"the webhook signing secret must hold 24 to 64 bytes, and holds {len(key)}")
    return key
