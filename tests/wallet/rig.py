"""The part of the wallet that sends, over a real database file, as the server puts it together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bridge_server.kernel.background import running
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.signals import Signals
from bridge_server.kernel.stopping import Stopping
from bridge_server.kernel.turns import Turns
from bridge_server.settings import Settings
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.storage.wallet_store import SqlTransactionStore
from bridge_server.wallet import broadcasting
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.approvals import Approvals
from bridge_server.wallet.broadcasting import Broadcaster
from bridge_server.wallet.confirming import Confirming
from bridge_server.wallet.models import AuditEntry, Caller
from bridge_server.wallet.node import Node
from bridge_server.wallet.offering import Offering
from bridge_server.wallet.queued import QueuedTransactions
from bridge_server.wallet.sending import Sending
from bridge_server.wallet_accounts import wallet_accounts
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
