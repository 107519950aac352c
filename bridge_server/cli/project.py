"""`bridge-server project ...`."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from bridge_server.admin.projects import wire
from bridge_server.admin.projects.analytics_wire import analytics_fields
from bridge_server.cli.groups import Group
from bridge_server.cli.operator import Operator, columns, for_operator, table
from bridge_server.cli.options import CommandError
from bridge_server.cli.project_type import type_group
from bridge_server.kernel.instants import rfc3339, spell_day
from bridge_server.projects.analytics import Analytics
from bridge_server.projects.models import ProjectDetails, ReadFigures

_SHOWN_ONCE = "The secret is not shown again: store it where the app's backend can read it."

project_argument = click.argument("project_id", metavar="PROJECT")


@click.group("project", cls=Group)
def project_group() -> None:
    """Manage the projects that send notifications. Works with or without a running server.

    With --json a command prints one JSON object, as the admin API answers it.
    """


project_group.add_command(type_group)


@project_group.command("create")
@click.argument("name")
@click.option("--id", "project_id", help="The project's id: a-z, 0-9 and hyphens.  [default: random]")
@for_operator
def create_command(operator: Operator, name: str, project_id: str | None) -> None:
    """Create a project called NAME, and print its first secret, which is shown only once."""
    project, secret = operator.run(lambda opened: opened.projects.create(name, project_id), may_create=True)
    lines = columns([("project", project.project_id), ("name", project.name), ("secret", secret.secret)])
    operator.show(wire.new_project_fields(project, secret, operator.servers_limit), [*lines, "", _SHOWN_ONCE])


@project_group.command("list")
@for_operator
def list_command(operator: Operator) -> None:
    """Print every project."""
    projects = operator.run(lambda opened: opened.projects.overview())
    rows = [
        (listed.project.project_id, listed.project.name, rfc3339(listed.project.created_at_ms))
        for listed in projects
    ]
    operator.show(
        wire.project_list_fields(projects, operator.servers_limit),
        table(("project", "name", "created"), rows, "there are no projects: `project create` makes one"),
    )


@project_group.command("show")
@project_argument
@for_operator
def show_command(operator: Operator, project_id: str) -> None:
    """Print a project, its notification types, its number of subscribers and the numbers of its secrets."""
    details = operator.run(lambda opened: opened.projects.show(project_id))
    fields = wire.details_fields(details, operator.servers_limit)
    operator.show(fields, _describe(details, fields["account_limit"]))


@project_group.command("rotate-secret")
@project_argument
@for_operator
def rotate_secret_command(operator: Operator, project_id: str) -> None:
    """Create a second secret and print it, which is done only once.

    Both secrets are valid until one is revoked with revoke-secret.
    """
    secret = operator.run(lambda opened: opened.projects.rotate_secret(project_id))
    lines = columns([("number", str(secret.number)), ("secret", secret.secret)])
    operator.show(wire.secret_fields(secret), [*lines, "", _SHOWN_ONCE])


@project_group.command("revoke-secret")
@project_argument
@click.argument("number", type=click.IntRange(1, 10**18))
@for_operator
def revoke_secret_command(operator: Operator, project_id: str, number: int) -> None:
    """Revoke the secret with this NUMBER at once; `project show` prints the numbers."""
    operator.run(lambda opened: opened.projects.revoke_secret(project_id, number))
    operator.show({"success": True}, [f"secret {number} is revoked"])


@project_group.command("limits")
@project_argument
@click.option("--per-hour", type=float, help="Notifications per hour to one account, on average.")
@click.option("--burst", type=int, help="The most notifications to one account at once.")
@click.option("--reset", is_flag=True, help="Remove the project's limit: the server's applies again.")
@for_operator
def limits_command(
    operator: Operator, project_id: str, per_hour: float | None, burst: int | None, reset: bool
) -> None:
    """Print or change the rate limit of a project's notifications to one account.

    Without options it prints the limit. --per-hour and --burst go together.
    """
    if reset and (per_hour is not None or burst is not None):
        raise CommandError("--reset does not go with --per-hour or --burst")
    if reset:
        project = operator.run(lambda opened: opened.projects.reset_account_limit(project_id))
    elif per_hour is not None and burst is not None:
        project = operator.run(lambda opened: opened.projects.limit_accounts(project_id, per_hour, burst))
    elif per_hour is None and burst is None:
        project = operator.run(lambda opened: opened.projects.show(project_id)).project
    else:
        raise CommandError("--per-hour and --burst go together")
    fields = wire.account_limit_fields(project.account_limit, operator.servers_limit)
    operator.show(fields, [_describe_limit(fields)])


@project_group.command("webhook")
@project_argument
@click.option("--url", help="POST every change of a subscription to this URL.")
@click.option("--remove", is_flag=True, help="Remove the webhook.")
@for_operator
def webhook_command(operator: Operator, project_id: str, url: str | None, remove: bool) -> None:
    """Print, set or remove the webhook that receives changes of subscriptions.

    --url also creates the secret that signs the webhook's messages, and prints it, which is done only once.
    """
    if url is not None and remove:
        raise CommandError("--url and --remove do not go together")
    if url is not None:
        webhook = operator.run(lambda opened: opened.projects.set_webhook(project_id, url))
        lines = columns([("webhook", webhook.url), ("signing secret", webhook.signing_secret)])
        operator.show(wire.webhook_fields(webhook), [*lines, "", _SHOWN_ONCE])
    elif remove:
        operator.run(lambda opened: opened.projects.remove_webhook(project_id))
        operator.show({"success": True}, ["the webhook is removed"])
    else:
        known = operator.run(lambda opened: opened.projects.show(project_id)).project.webhook
        shown = None if known is None else known.url
        operator.show({"url": shown}, [shown or "there is no webhook"])


@project_group.command("delete")
@project_argument
@click.option("--yes", is_flag=True, help="Delete without asking.")
@for_operator
def delete_command(operator: Operator, project_id: str, yes: bool) -> None:
    """Delete a project with its subscriptions, notifications and analytics.

    On a terminal the command asks first; elsewhere, and with --json, it needs --yes.
    """
    if not yes:
        _confirm_deletion(operator, project_id)
    operator.run(lambda opened: opened.projects.delete(project_id))
    operator.show({"success": True}, [f"project {project_id} is deleted"])


@project_group.command("analytics")
@project_argument
@click.option("--from", "first", metavar="DAY", help="The first day, such as 2026-01-31.")
@click.option("--to", "last", metavar="DAY", help="The last day.  [default: today; the period is 30 days]")
@for_operator
def analytics_command(operator: Operator, project_id: str, first: str | None, last: str | None) -> None:
    """Print how many notifications were sent and read, by type and by day (UTC).

    A read counts for the day on which the notification was sent. Notifications that mark-all-as-read marked
    do not count in the read rate.
    """
    found = operator.run(lambda opened: opened.projects.analytics(project_id, first, last))
    operator.show(analytics_fields(found), _describe_analytics(found))


def _confirm_deletion(operator: Operator, project_id: str) -> None:
    if operator.as_json or not sys.stdin.isatty():
        raise CommandError("this is no terminal to ask at: add --yes to delete the project for good")
    details = operator.run(lambda opened: opened.projects.show(project_id))
    click.confirm(
        f"Delete the project {project_id} ({details.project.name}), its {details.subscribers} subscriptions "
        "and everything that it sent?",
        abort=True,
    )


def _describe(details: ProjectDetails, limit: dict[str, Any]) -> list[str]:
    project = details.project
    secrets = [f"{secret.number} (made {rfc3339(secret.created_at_ms)})" for secret in details.secrets]
    types = [f"{kind.type_id} ({kind.name})" for kind in details.types]
    return columns(
        [
            ("project", project.project_id),
            ("name", project.name),
            ("created", rfc3339(project.created_at_ms)),
            ("account limit", _describe_limit(limit)),
            ("webhook", "-" if project.webhook is None else project.webhook.url),
            *_listed("secrets", secrets),
            *_listed("types", types),
            ("subscribers", str(details.subscribers)),
        ]
    )


def _listed(label: str, entries: Sequence[str]) -> list[tuple[str, str]]:
    first, *others = entries or ["-"]
    return [(label, first), *(("", entry) for entry in others)]


def _describe_limit(limit: dict[str, Any]) -> str:
    whose = "the project's own" if limit["own"] else "the server's"
    per_hour = f"{limit['per_hour']:.6f}".rstrip("0").rstrip(".")
    return f"{per_hour} per hour, {limit['burst']} at once ({whose})"


def _describe_analytics(analytics: Analytics) -> list[str]:
    rows = [("type", "day", "sent", "read", "bulk-marked", "read rate")]
    for kind in analytics.types:
        rows += [_figures_row(kind.type_id, spell_day(day.day), day.figures) for day in kind.days]
        rows.append(_figures_row(kind.type_id, "all", kind.total))
    rows.append(_figures_row("all", "all", analytics.total))
    heading = f"{spell_day(analytics.period.first_day)} to {spell_day(analytics.period.last_day)}"
    return [heading, "", *columns(rows, right=(2, 3, 4, 5))]


def _figures_row(kind: str, day: str, figures: ReadFigures) -> tuple[str, str, str, str, str, str]:
    rate = "-" if figures.read_rate is None else f"{figures.read_rate:.1%}"
    return kind, day, str(figures.sent), str(figures.read), str(figures.bulk_marked), rate
