"""The requests of an app's backend: notifications to all subscribers of a project, look-ups of some."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import orjson
from load import CONNECTIONS, PLACEHOLDER, Load
from project_seed import TYPE_ID, SeededProject

NOBODY_IS_REFUSED = {"BRIDGE_ACCOUNT_BURST": "1000000", "BRIDGE_ACCOUNT_RATE_PER_HOUR": "2"}
"""So many notifications to one account are not usual; its bucket is charged and stored all the same."""


def notification(accounts: Sequence[str], keyed: bool = False) -> bytes:
    """The body of a notification, another one every time; with an idempotency key, or without."""
    content = {
        "type": TYPE_ID,
        "title": "Order filled" if keyed else f"Order {PLACEHOLDER} filled",
        "body": "Your order to sell 12.5 ETH was filled at a price of 2,318.20 USDC.",
        "url": "https://app.example.org/orders?page=latest",
    }
    key = {"notification_id": f"order-{PLACEHOLDER}"} if keyed else {}
    return orjson.dumps({**key, "notification": content, "accounts": accounts})


def notify_load(
    folder: Path, projects: Iterable[SeededProject], connections: int = CONNECTIONS, keyed: bool = False
) -> Load:
    """Notifications to everybody, project after project: as one may be called only twice a second."""
    paths, headers, bodies = (
        folder / "bench-paths.txt",
        folder / "bench-headers.txt",
        folder / "bench-body.txt",
    )
    with paths.open("w") as path, headers.open("w") as header, bodies.open("wb") as body:
        for project in projects:
            path.write(f"/{project.project_id}/notify\n")
            header.write(f"{project.header}\n")
            body.write(notification(_as_listed(project)[0], keyed) + b"\n")
    return Load("POST", paths, bodies, 200, headers, connections)


def write_account_numbers(file: Path, projects: Iterable[SeededProject]) -> Path:
    """For bare_notify.py: the numbers of the same accounts in the same order."""
    with file.open("wb") as lines:
        for project in projects:
            lines.write(orjson.dumps(_as_listed(project)[1]) + b"\n")
    return file


def write_accounts(file: Path, projects: Iterable[SeededProject]) -> Path:
    """For store_notify.py: the same accounts by project."""
    with file.open("wb") as lines:
        for project in projects:
            lines.write(project.project_id.encode() + b" " + orjson.dumps(_as_listed(project)[0]) + b"\n")
    return file


def lookup_body(accounts: Sequence[str]) -> bytes:
    """The body of a look-up."""
    return orjson.dumps({"accounts": accounts})


def _as_listed(project: SeededProject) -> tuple[Sequence[str], Sequence[int]]:
    """The subscribers and their numbers in the order of GET /subscribers."""
    accounts, numbers = zip(*sorted(zip(project.accounts, project.account_numbers, strict=True)), strict=True)
    return accounts, numbers
