"""The services behind an operator's, which every start loads; `admin.py` is loaded for an operator only."""

from typing import NamedTuple

from bridge_server.assembly.projects import ProjectServices
from bridge_server.assembly.push import PushServices
from bridge_server.assembly.wallet import AssembledWallet
from bridge_server.inbox.reading import InboxReads
from bridge_server.notify.service import Notifications
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.outbox.store import StockOf
from bridge_server.web.metrics import Readiness


class Operated(NamedTuple):
    """The services of other rooms that an operator reads and changes."""

    projects: ProjectServices
    notifications: Notifications
    inbox: InboxReads
    wallet: AssembledWallet
    push: PushServices
    dispatcher: Dispatcher
    stock: StockOf
    readiness: Readiness
