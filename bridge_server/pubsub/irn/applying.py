"""Changes of generation 2.x, one after the other in one transaction."""

from collections.abc import Sequence

from bridge_server.pubsub.irn.models import Change, Publishing, Subscribing, Unsubscribing
from bridge_server.pubsub.irn.publishing import Publications
from bridge_server.pubsub.irn.rules import Applied, Rules
from bridge_server.pubsub.irn.subscribing import IrnSubscriptions
from bridge_server.pubsub.queues.notices import Allowance
from bridge_server.storage.database import Transaction


def apply_changes(
    changes: Sequence[Change],
    rules: Rules,
    notice_bytes: Allowance,
    subscription_bytes: Allowance,
    *,
    is_full: bool,
) -> Transaction[Applied]:
    """A part of a transaction: each change wholly or not at all, in their order."""
    applied = Applied()
    subscriptions = IrnSubscriptions(rules, applied, subscription_bytes, is_full=is_full)
    publications = Publications(rules, applied, subscriptions, notice_bytes, is_full=is_full)
    if rules.is_shared:
        yield from publications.ask_the_database([each for each in changes if isinstance(each, Publishing)])
    for position, change in enumerate(changes):
        refused = None
        match change:
            case Publishing() if not publications.is_done(change):
                refused = yield from publications.publish(change)
            case Subscribing():
                refused = yield from subscriptions.subscribe(change.client, change.address, change.topics)
            case Unsubscribing():
                yield from subscriptions.unsubscribe(change.client, change.topics)
        if refused is not None:
            applied.refused[position] = refused
    yield from publications.end()
    return applied
