"""Checks of the credentials of push services. Each raises ValueError, which quotes nothing that is secret.

This module is imported when one of the services is on: elliptic curves and RSA take 4 MiB of memory.
"""

from pathlib import Path

from bridge_server.push.keys import read_private_key
from bridge_server.push.providers.apns_settings import ApnsSettings
from bridge_server.push.providers.service_account import ServiceAccount
from bridge_server.push.webpush.vapid import checked_subject


def check_fcm(credentials: str) -> None:
    """Check the text of a service account's JSON file."""
    ServiceAccount.parse(credentials)


def check_apns(
    key: str, key_id: str, team_id: str, topic: str, endpoint: str | None, ca_file: Path | None
) -> None:
    """Check the text of a .p8 file, and what belongs to its key."""
    ca_path = None if ca_file is None else str(ca_file)
    ApnsSettings(key, key_id, team_id, topic, endpoint=endpoint, ca_file=ca_path)


def check_vapid_key(private_key: str) -> None:
    """Check a private key of Web Push."""
    read_private_key(private_key)


def check_vapid_subject(subject: str) -> None:
    """Check the address that push services write to."""
    checked_subject(subject)
