"""Sign-in to the console, for the server and for the command that prints links."""

import os

from bridge_server.assembly.foundation import Foundation
from bridge_server.console.access import ConsoleAccess
from bridge_server.console.store import AccessStore


def console_access(foundation: Foundation) -> ConsoleAccess:
    """Links and sessions in the foundation's database."""
    return ConsoleAccess(AccessStore(foundation.database), foundation.machine_clock, os.urandom)
