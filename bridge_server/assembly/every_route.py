"""Every route that a server can have, whatever the settings of this one are."""

from pydantic import SecretStr

from bridge_server.assembly.foundation import lay_foundation
from bridge_server.assembly.house import house
from bridge_server.settings.settings import Settings
from bridge_server.web.routes import Route

_TOKEN = SecretStr("0" * 40)
"""Routes exist with a token for them. No server that runs has this one."""


def every_route() -> tuple[Route, ...]:
    """The rows of a server in test mode with everything that can be turned on, but the console.

    Nothing is opened, and no file is read.
    """
    settings = Settings(
        test=True, admin_token=_TOKEN, admin_wallet=True, metrics_token=_TOKEN, rpc_token=_TOKEN
    )
    return tuple(row for room in house(lay_foundation(settings)) for row in room.routes)
