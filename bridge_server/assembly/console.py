"""What the console's pages need of the rest of the server."""

from dataclasses import dataclass

from bridge_server.assembly.operator_desks import OperatorDesks
from bridge_server.assembly.operator_views import OperatorViews
from bridge_server.assembly.testmode import TestMode
from bridge_server.assembly.wallet import AssembledWallet
from bridge_server.outbox.counted_stock import StockOf
from bridge_server.wallet.node.node import Node
from bridge_server.web.health import Readiness


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    """What the pages show and change: the services of other rooms."""

    desks: OperatorDesks
    views: OperatorViews | None
    stock: StockOf
    node: Node
    wallet: AssembledWallet
    readiness: Readiness
    test_mode: TestMode | None
