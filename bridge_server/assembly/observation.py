"""What an operator may see of the requests: kept in memory, and only where an operator can look."""

from collections import Counter
from dataclasses import dataclass

from bridge_server.admin.outbox.purposes import PUSHES
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.signals import Signals
from bridge_server.outbox.attempts import AttemptLog, NotedSender
from bridge_server.outbox.channels import Sender
from bridge_server.push.service import OWN_CHANNEL
from bridge_server.relay.sightings import Sightings
from bridge_server.settings.settings import Settings
from bridge_server.testmode.instruments import Instruments
from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.clients import Clients
from bridge_server.web.lately import Lately
from bridge_server.web.observing import Observer
from bridge_server.web.traffic import TrafficLog

_INNER_CHANNELS = frozenset({OWN_CHANNEL})
"""They lead to another part of this server, which sends the push."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The records of requests and of those who send them."""

    traffic: TrafficLog | None
    """None when no record of requests is kept."""
    clients: Clients
    made: Lately
    """Sessions and calls that were made."""
    sightings: Sightings
    open_sockets: Counter[str]
    """Open sockets by address, without exempt clients."""
    attempts: AttemptLog
    """The last attempts to deliver webhooks and pushes."""


def is_observed(settings: Settings) -> bool:
    """Whether an operator can look at the server: by the admin API or by the console."""
    return settings.admin_token is not None or settings.console


def keeps_traffic(settings: Settings) -> bool:
    """Whether the last requests are kept outside of test mode, which keeps them in any case."""
    return settings.console if settings.traffic is None else settings.traffic


def observation_of(
    settings: Settings, clock: Clock, signals: Signals, instruments: Instruments | None
) -> Observation | None:
    """The records that the settings ask for; None where no operator can look."""
    if not is_observed(settings):
        return None
    traffic = None if instruments is None else instruments.traffic
    if traffic is None and keeps_traffic(settings):
        traffic = TrafficLog(signals, clock, keeps_contents=False)
    attempts = AttemptLog(clock, PUSHES, keeps_bodies=instruments is not None)
    return Observation(traffic, Clients(clock), Lately(clock), Sightings(clock), Counter(), attempts)


def noted(sender: Sender, observation: Observation | None) -> Sender:
    """The sender, whose attempts an operator can see; itself where no operator looks."""
    return sender if observation is None else NotedSender(sender, observation.attempts, _INNER_CHANNELS)


def observer_of(observation: Observation, addresses: ClientAddresses, clock: Clock) -> Observer:
    """What the outermost layer calls with each request; test mode has a layer for its record."""
    traffic = observation.traffic
    record = None if traffic is None or traffic.keeps_contents else traffic
    observer = Observer(record, observation.clients, observation.made, addresses, clock)
    observation.sightings.before_reading = observer.drain
    return observer
