"""The collaborators that all lanes share."""

from dataclasses import dataclass, field

from bridge_server.kernel.clock import Clock
from bridge_server.outbox.admission import Admission
from bridge_server.outbox.delivery import Delivery
from bridge_server.outbox.leases import Leases
from bridge_server.outbox.schedule import Schedule
from bridge_server.outbox.store import OutboxStore
from bridge_server.outbox.troubled import Troubled
from bridge_server.outbox.withheld import Withheld


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The collaborators of every lane."""

    store: OutboxStore
    delivery: Delivery
    admission: Admission
    schedule: Schedule
    clock: Clock
    leases: Leases
    troubled: Troubled = field(default_factory=Troubled)
    withheld: Withheld = field(default_factory=Withheld)
