"""What the tests of Web Push start from: a key pair, settings for this machine, a notice."""

from secrets import token_bytes

from bridge_server.push.keys import new_vapid_keys
from bridge_server.push.models import PushNotice
from bridge_server.push.providers.webpush import WebPushSettings

KEYS = new_vapid_keys(token_bytes)
SUBJECT = "mailto:push@bridge.example.org"
OPEN = WebPushSettings(
    vapid_private_key=KEYS.private_key,
    vapid_subject=SUBJECT,
    timeout_seconds=20,
    allow_private=True,
    user_agent="Bridge-Server/1",
)
NOTICE = PushNotice(
    message_id="device-7.41",
    title="New request",
    body="Wallet asks für you 👋",
    url="https://dapp.example.org/calls",
    data={"topic": "t-1"},
)
