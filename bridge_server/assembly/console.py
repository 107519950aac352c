"""The services of other rooms for the console's pages."""

from dataclasses import dataclass

from bridge_server.assembly.operator_desks import OperatorDesks
from bridge_server.assembly.operator_views import OperatorViews
from bridge_server.assembly.testmode import TestMode
from bridge_server.assembly.wallet import AssembledWallet
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.wallet.node.node import Node
from bridge_server.web.health import Readiness


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    """The services through which pages read and change other rooms."""

    desks: OperatorDesks
    views: OperatorViews | None
    dispatcher: Dispatcher
    node: Node
    wallet: AssembledWallet
    readiness: Readiness
    test_mode: TestMode | None
