"""The page of projects: each change is one call of the services behind the admin API."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from bridge_server.admin import notifications, projects, rows
from bridge_server.console.models import ROOT, Asked, ConsolePage, Done, PagePath, View, number_of
from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.projects.models import NewSubscription, TypeId
from bridge_server.projects.service import ProjectServices
from bridge_server.web.bodies import check

MOST_IMPORTED = 500  # lines of one import: they are one transaction

_PROJECTS = "/projects"
_PROJECT = f"{_PROJECTS}/{{project_id:[^/]{{1,128}}}}"
_LIVE = ("projects",)
_PAGE = 25
_PROJECTS_PAGE = 100
_PLACES = ("list", "search", "after")
"""The positions at which the lists of projects and of subscribers are open."""


class ProjectsPage:
    """The views and changes of projects."""

    def __init__(self, services: ProjectServices) -> None:
        self._projects, self._subscriptions, _, self._account_limit = services
        changes = {
            "delete": self.delete,
            "add-type": self.add_type,
            "rename-type": self.rename_type,
            "remove-type": self.remove_type,
            "rotate-secret": self.rotate_secret,
            "revoke-secret": self.revoke_secret,
            "limit": self.limit_accounts,
            "reset-limit": self.reset_limit,
            "set-webhook": self.set_webhook,
            "remove-webhook": self.remove_webhook,
            "subscribe": self.subscribe,
            "unsubscribe": self.unsubscribe,
            "import": self.import_subscribers,
        }
        all_projects = PagePath(_PROJECTS, self.show_all, {"create": self.create})
        paths = (all_projects, PagePath(_PROJECT, self.show, changes))
        self.page = ConsolePage("projects", "Projects", "Notifications", paths, self._projects.store.count)

    async def show_all(self, asked: Asked) -> View:
        """A page of projects."""
        return View("projects/list.html", await self._list(asked), _LIVE)

    async def show(self, asked: Asked) -> View:
        """One project, and a page of its subscribers."""
        project_id = _project_id(asked)
        search, after = asked.query.get("search", ""), asked.query.get("after", "")
        details = await self._projects.show(project_id)
        found = await self._subscriptions.search(project_id, search.strip(), after, _PAGE + 1)
        figures = await self._projects.analytics(project_id, None, None)
        fields = {
            **await self._list(asked),
            "project": projects.details_fields(details, self._account_limit),
            "found": projects.subscriber_page_fields(found, _PAGE),
            "figures": notifications.figures_fields(figures.total),
            "search": search,
            "after": after,
            "most_imported": MOST_IMPORTED,
        }
        return View("projects/project.html", fields, _LIVE)

    async def create(self, asked: Asked) -> Done:
        new = check(projects.ProjectShape, asked.texts("name", optional=("project_id",)))
        project, secret = await self._projects.create(new.name, new.project_id)
        shown = {"Its secret": secret.secret}
        return Done(_path(project.project_id), f"The project {project.name} is created.", shown)

    async def delete(self, asked: Asked) -> Done:
        project_id = _project_id(asked)
        if asked.form.get("confirmed_id") != project_id:
            raise InvalidInputError("The project was not deleted: type its id to confirm.")
        await self._projects.delete(project_id)
        return Done(f"{ROOT}{_PROJECTS}{_kept(asked, 'list')}", f"The project {project_id} is deleted.")

    async def add_type(self, asked: Asked) -> Done:
        new = check(projects.TypeShape, asked.texts("name", optional=("type_id",)))
        added = await self._projects.add_type(_project_id(asked), new.name, new.type_id)
        return _done(asked, f"The type {added.type_id} is added.")

    async def rename_type(self, asked: Asked) -> Done:
        type_id = asked.form.get("type_id", "")
        name = check(projects.TypeNameShape, asked.texts("name")).name
        await self._projects.rename_type(_project_id(asked), type_id, name)
        return _done(asked, f"The type {type_id} is now called {name}.")

    async def remove_type(self, asked: Asked) -> Done:
        type_id = asked.form.get("type_id", "")
        await self._projects.remove_type(_project_id(asked), type_id)
        return _done(asked, f"The type {type_id} is removed.")

    async def rotate_secret(self, asked: Asked) -> Done:
        secret = await self._projects.rotate_secret(_project_id(asked))
        return _done(asked, f"Secret {secret.number} is valid beside the other.", {"Secret": secret.secret})

    async def revoke_secret(self, asked: Asked) -> Done:
        number = asked.form.get("number", "")
        if not number.isascii() or not number.isdigit() or len(number) > 18:
            raise InvalidInputError("The form names no secret: open the page again.")
        await self._projects.revoke_secret(_project_id(asked), int(number))
        return _done(asked, f"Secret {number} is revoked.")

    async def limit_accounts(self, asked: Asked) -> Done:
        values = {name: number_of(asked.form.get(name, "")) for name in ("per_hour", "burst")}
        limit = check(projects.AccountLimitShape, values)
        await self._projects.limit_accounts(_project_id(asked), limit.per_hour, limit.burst)
        return _done(asked, "The limit is set.")

    async def reset_limit(self, asked: Asked) -> Done:
        await self._projects.reset_account_limit(_project_id(asked))
        return _done(asked, "The server's limit applies again.")

    async def set_webhook(self, asked: Asked) -> Done:
        url = check(projects.WebhookShape, asked.texts("url")).url
        webhook = await self._projects.set_webhook(_project_id(asked), url)
        return _done(asked, "The webhook is set.", {"Its signing secret": webhook.signing_secret})

    async def remove_webhook(self, asked: Asked) -> Done:
        await self._projects.remove_webhook(_project_id(asked))
        return _done(asked, "The webhook is removed.")

    async def subscribe(self, asked: Asked) -> Done:
        types = tuple(map(TypeId, asked.form.get("types", "").replace(",", " ").split()))
        account = projects.read_account(asked.form.get("account", "").strip())
        subscription, _ = await self._subscriptions.subscribe(
            _project_id(asked), NewSubscription(account, types or None)
        )
        return _done(asked, f"{subscription.account} is subscribed.")

    async def unsubscribe(self, asked: Asked) -> Done:
        account = projects.read_account(asked.form.get("account", ""))
        await self._subscriptions.unsubscribe(_project_id(asked), account.key)
        return _done(asked, f"{account.spelled} is unsubscribed.")

    async def import_subscribers(self, asked: Asked) -> Done:
        wanted = _read_lines(asked.form.get("lines", ""))
        outcomes = await self._subscriptions.subscribe_all(_project_id(asked), wanted)
        changed = sum(change is not None for _, change in outcomes)
        return _done(asked, f"{len(outcomes)} accounts are subscribed; {changed} of them are new or changed.")

    async def _list(self, asked: Asked) -> dict[str, Any]:
        place = asked.query.get("list", "")
        found = await self._projects.overview(rows.read_after(place) or 0, _PROJECTS_PAGE + 1)
        listed = projects.project_page_fields(found, _PROJECTS_PAGE, self._account_limit)
        return {"projects": listed["projects"], "next_list": listed["next"], "list_after": place}


def _project_id(asked: Asked) -> str:
    return asked.names["project_id"]


def _path(project_id: str) -> str:
    return f"{ROOT}{_PROJECTS}/{quote(project_id, safe='')}"


def _done(asked: Asked, message: str, secrets: Mapping[str, str] | None = None) -> Done:
    return Done(f"{_path(_project_id(asked))}{_kept(asked, *_PLACES)}", message, secrets or {})


def _kept(asked: Asked, *names: str) -> str:
    """The query with these parameters of the page that the form was on, so that it shows as before."""
    given = {name: asked.query[name] for name in names if asked.query.get(name)}
    return f"?{urlencode(given)}" if given else ""


def _read_lines(text: str) -> list[NewSubscription]:
    """The subscriptions in the lines that are not empty. Raises InvalidInputError, which names the line."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not 1 <= len(lines) <= MOST_IMPORTED:
        raise InvalidInputError(f"Nobody was subscribed: send 1 to {MOST_IMPORTED} lines at once.")
    subscriptions = []
    for number, line in lines:
        try:
            subscriptions.append(projects.read_subscriber(line.encode()))
        except InvalidInputError as error:
            details = [fault.detail for fault in error.faults] or [error.detail]
            faults = [Fault(f"#/line {number}", detail) for detail in details]
            raise InvalidInputError("Nobody was subscribed.", faults) from error
    return subscriptions
