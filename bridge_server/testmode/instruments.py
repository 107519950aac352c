"""The instruments of test mode: a movable clock, ordered faults, and records of messages and requests."""

from dataclasses import dataclass

from bridge_server.kernel.clock import MovableClock
from bridge_server.testmode.faults import Faults
from bridge_server.testmode.sent import SentMessages
from bridge_server.web.traffic import TrafficLog


@dataclass(frozen=True, slots=True)
class Instruments:
    """The instruments of one server in test mode, and the bearer token of its control routes."""

    clock: MovableClock
    faults: Faults
    sent: SentMessages
    traffic: TrafficLog
    token: str
