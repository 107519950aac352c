"""The purposes of stored messages, as an operator sorts them."""

from bridge_server.notify.device_notices import DEVICE
from bridge_server.push.notices import PUSH

PUSHES = (DEVICE, PUSH)
"""The purposes of messages for devices."""
