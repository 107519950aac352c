"""Every statement that PostgreSQL spells otherwise, or that is slow there, of all rooms."""

from collections import ChainMap
from collections.abc import Mapping

from bridge_server.console import sql_postgres as console
from bridge_server.inbox import sql_postgres as inbox
from bridge_server.notify import sql_postgres as notify
from bridge_server.outbox import sql_postgres as outbox
from bridge_server.projects import sql_postgres as projects
from bridge_server.pubsub import sql_postgres as pubsub
from bridge_server.pubsub.irn import sql_postgres as irn
from bridge_server.push import sql_postgres as push
from bridge_server.relay import sql_postgres as relay
from bridge_server.topics import sql_postgres as topics
from bridge_server.wallet import sql_postgres as approvals
from bridge_server.wallet.transactions import sql_postgres as transactions
from bridge_server.web import sql_postgres as limits

OF_ROOMS: tuple[Mapping[str, str], ...] = (
    console.OVERRIDES,
    inbox.OVERRIDES,
    notify.OVERRIDES,
    outbox.OVERRIDES,
    projects.OVERRIDES,
    pubsub.OVERRIDES,
    irn.OVERRIDES,
    push.OVERRIDES,
    relay.OVERRIDES,
    topics.OVERRIDES,
    approvals.OVERRIDES,
    transactions.OVERRIDES,
    limits.OVERRIDES,
)
OVERRIDES: Mapping[str, str] = dict(ChainMap(*map(dict, OF_ROOMS)))
"""PostgreSQL's forms by the statements that the rooms have written."""

HEAVY = frozenset((*inbox.HEAVY, *notify.HEAVY, *outbox.HEAVY, *projects.HEAVY, *relay.HEAVY))
"""Reads that are run alone and on half of the connections, as the rooms have written them."""
