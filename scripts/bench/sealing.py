"""The sealing of Web Push messages without their sending: a script for worker.py.

All that WebPushProvider does in its thread: it reads the subscription, makes a key pair, encrypts, and has
the VAPID token ready. On one core.
"""

import itertools
import os
import time

from cores import keep_on_first_core
from push_seed import notices, webpush_urls
from worker import serve

from bridge_server.kernel.clock import SystemClock
from bridge_server.push.keys import new_vapid_keys
from bridge_server.push.notices import read_notice
from bridge_server.push.providers.webpush import WebPushProvider, WebPushSettings
from bridge_server.push.webpush.payload import write_payload
from bridge_server.version import USER_AGENT


def main() -> None:
    keep_on_first_core(0)
    key = new_vapid_keys(os.urandom).private_key
    settings = WebPushSettings(
        key, "mailto:operator@example.org", 10, allow_private=True, user_agent=USER_AGENT
    )
    provider = WebPushProvider(settings, SystemClock())
    messages = itertools.cycle(notices(1_000, webpush_urls("http://127.0.0.1:1"), None, for_devices=False))

    def seal(count: int, _: int) -> None:
        for message in itertools.islice(messages, count):
            payload = write_payload(read_notice(message))
            assert payload is not None
            provider._seal(message.url.partition(":")[2], payload, time.time_ns() // 1_000_000)

    serve(seal)


if __name__ == "__main__":
    main()
