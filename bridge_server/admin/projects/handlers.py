"""Handlers of the projects' endpoints: read the request, call the service once, write the answer."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.pages import wanted_page
from bridge_server.admin.projects import bodies, wire
from bridge_server.admin.projects.analytics_wire import analytics_fields
from bridge_server.kernel.token_bucket import Limit
from bridge_server.projects.device_state_store import DeviceStateStore
from bridge_server.projects.errors import SubscriptionNotFoundError
from bridge_server.projects.models import NewSubscription
from bridge_server.projects.projects import Projects
from bridge_server.projects.subscriptions import Subscriptions
from bridge_server.projects.wire import read_wanted_types
from bridge_server.web.answers import json_answer
from bridge_server.web.json_body import json_object


class ProjectHandlers:
    """One method per endpoint. `account_limit` is the server's default for projects without their own."""

    def __init__(
        self,
        projects: Projects,
        subscriptions: Subscriptions,
        devices: DeviceStateStore,
        account_limit: Limit,
    ) -> None:
        self._projects = projects
        self._subscriptions = subscriptions
        self._devices = devices
        self._account_limit = account_limit

    async def devices(self, request: web.Request) -> web.Response:
        account = wire.read_account(request.match_info["account"])
        return fields_answer(wire.devices_fields(await self._devices.of_account(account.key)))

    async def listed(self, request: web.Request) -> web.Response:
        """A page of projects; all of them for a client that asks for no page, as before there were pages."""
        if not {"after", "limit"} & request.query.keys():
            projects = await self._projects.overview()
            return fields_answer(wire.project_list_fields(projects, self._account_limit))
        after, limit = wanted_page(request)
        found = await self._projects.overview(wire.read_place(after), limit + 1)
        return fields_answer(wire.project_page_fields(found, limit, self._account_limit))

    async def create_project(self, request: web.Request) -> web.Response:
        new = bodies.read_project(await json_object(request))
        project, secret = await self._projects.create(new.name, new.project_id)
        return fields_answer(wire.new_project_fields(project, secret, self._account_limit))

    async def project(self, request: web.Request) -> web.Response:
        details = await self._projects.show(_project_id(request))
        return fields_answer(wire.details_fields(details, self._account_limit))

    async def delete_project(self, request: web.Request) -> web.Response:
        await self._projects.delete(_project_id(request))
        return json_answer(wire.SUCCESS)

    async def rotate_secret(self, request: web.Request) -> web.Response:
        secret = await self._projects.rotate_secret(_project_id(request))
        return fields_answer(wire.secret_fields(secret))

    async def revoke_secret(self, request: web.Request) -> web.Response:
        await self._projects.revoke_secret(_project_id(request), int(request.match_info["number"]))
        return json_answer(wire.SUCCESS)

    async def limit_accounts(self, request: web.Request) -> web.Response:
        limit = bodies.read_account_limit(await json_object(request))
        project = await self._projects.limit_accounts(_project_id(request), limit.per_hour, limit.burst)
        return fields_answer(wire.account_limit_fields(project.account_limit, self._account_limit))

    async def reset_account_limit(self, request: web.Request) -> web.Response:
        await self._projects.reset_account_limit(_project_id(request))
        return json_answer(wire.SUCCESS)

    async def set_webhook(self, request: web.Request) -> web.Response:
        url = bodies.read_webhook(await json_object(request))
        webhook = await self._projects.set_webhook(_project_id(request), url)
        return fields_answer(wire.webhook_fields(webhook))

    async def remove_webhook(self, request: web.Request) -> web.Response:
        await self._projects.remove_webhook(_project_id(request))
        return json_answer(wire.SUCCESS)

    async def types(self, request: web.Request) -> web.Response:
        types = await self._projects.types(_project_id(request))
        return fields_answer(wire.type_list_fields(types))

    async def add_type(self, request: web.Request) -> web.Response:
        new = bodies.read_type(await json_object(request))
        added = await self._projects.add_type(_project_id(request), new.name, new.type_id)
        return fields_answer(wire.type_fields(added))

    async def rename_type(self, request: web.Request) -> web.Response:
        name = bodies.read_type_name(await json_object(request))
        renamed = await self._projects.rename_type(_project_id(request), _type_id(request), name)
        return fields_answer(wire.type_fields(renamed))

    async def remove_type(self, request: web.Request) -> web.Response:
        await self._projects.remove_type(_project_id(request), _type_id(request))
        return json_answer(wire.SUCCESS)

    async def subscribers(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        search = request.query.get("search", "")
        found = await self._subscriptions.search(_project_id(request), search, after, limit + 1)
        return fields_answer(wire.subscriber_page_fields(found, limit))

    async def subscribe(self, request: web.Request) -> web.Response:
        account = wire.read_account(request.match_info["account"])
        values = (await json_object(request)).values if await request.read() else {}
        types = read_wanted_types(values)
        subscription, _ = await self._subscriptions.subscribe(
            _project_id(request), NewSubscription(account, types)
        )
        return fields_answer(wire.subscription_fields(subscription))

    async def unsubscribe(self, request: web.Request) -> web.Response:
        account = wire.read_account(request.match_info["account"])
        if not await self._subscriptions.unsubscribe(_project_id(request), [account.key]):
            raise SubscriptionNotFoundError
        return json_answer(wire.SUCCESS)

    async def analytics(self, request: web.Request) -> web.Response:
        asked = request.query
        found = await self._projects.analytics(_project_id(request), asked.get("from"), asked.get("to"))
        return fields_answer(analytics_fields(found))


def _project_id(request: web.Request) -> str:
    return request.match_info["project_id"]


def _type_id(request: web.Request) -> str:
    return request.match_info["type_id"]
