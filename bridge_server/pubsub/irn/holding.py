"""Bytes that clients of generation 2.x may store, at hand where several processes charge for them."""

from collections import Counter
from collections.abc import Sequence

from bridge_server.pubsub.irn.models import Change, Publishing, Subscribing
from bridge_server.pubsub.irn.subscribing import SUBSCRIPTION_BYTES
from bridge_server.pubsub.queues.notices import Allowance, hold_for_notices


async def hold_for_changes(
    changes: Sequence[Change], notice_bytes: Allowance, subscription_bytes: Allowance
) -> None:
    """Have the bytes at hand that the changes may take. Raises UnavailableError."""
    subscribing: Counter[str | None] = Counter()
    for change in changes:
        if isinstance(change, Subscribing):
            subscribing[change.address] += len(change.topics) * SUBSCRIPTION_BYTES
        elif isinstance(change, Publishing) and change.subscribes is not None:
            subscribing[change.address] += SUBSCRIPTION_BYTES
    if subscribing:
        await subscription_bytes.hold(subscribing)
    prompt = [
        envelope.address
        for change in changes
        if isinstance(change, Publishing)
        for envelope in change.envelopes
        if envelope.prompt
    ]
    await hold_for_notices(notice_bytes, prompt)
