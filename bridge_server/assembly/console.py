"""What the console's pages need of the rest of the server."""

from dataclasses import dataclass

from bridge_server.assembly.operator_desks import OperatorDesks
from bridge_server.assembly.operator_rooms import Operated
from bridge_server.assembly.operator_views import OperatorViews
from bridge_server.assembly.testmode import TestMode


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    """What the pages show and change: the services of other rooms."""

    desks: OperatorDesks
    views: OperatorViews
    operated: Operated
    test_mode: TestMode | None
