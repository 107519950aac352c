"""The notice of a notification for a device, as a message of the outbox."""

import orjson

from bridge_server.kernel.instants import rfc3339
from bridge_server.notify.models import DeviceOfRecipient, SentNotification
from bridge_server.outbox.models import OutgoingMessage, Purpose

DEVICE = Purpose("device")
"""The purpose of a notice to an account's device: its subject is the project that has sent it."""


def write_notice(sent: SentNotification, device: DeviceOfRecipient) -> OutgoingMessage:
    """The message for one device. Its id is unique to the device, and does not change between attempts."""
    notice = {
        "event": "notification",
        "id": str(sent.number),
        "project_id": sent.project_id,
        "project_name": sent.project_name,
        "account": device.account,
        "type": sent.notification.type_id,
        "title": sent.notification.title,
        "body": sent.notification.body,
        "url": sent.notification.url,
        "sent_at": rfc3339(sent.sent_at_ms),
    }
    return OutgoingMessage(
        f"{device.device_id}.{sent.number}",
        device.url,
        orjson.dumps(notice),
        DEVICE,
        lane=device.lane,
        device_id=device.device_id,
        subject=sent.project_id,
    )
