"""The services of other rooms for the console's pages."""

from dataclasses import dataclass

from bridge_server.assembly.operator_desks import OperatorDesks
from bridge_server.assembly.operator_rooms import Operated
from bridge_server.assembly.operator_views import OperatorViews
from bridge_server.assembly.testmode import TestMode


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    """The services through which pages read and change other rooms."""

    desks: OperatorDesks
    views: OperatorViews
    operated: Operated
    test_mode: TestMode | None
